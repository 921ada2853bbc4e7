"""CreateTopics (19), versions 2-7: decided by the controller.

- Counts of -1 mean the broker's defaults, in all served versions. The request may assign replicas.
  `validate_only` returns the same response and changes nothing.
- A topic named twice, or an internal topic of the cluster, is INVALID_REQUEST. Names that differ
  from an existing one only in '.' and '_' are rejected.
- The topic's settings are in the response from version 5 on, its id from version 7 on.
- Requests for more than 100 000 partitions are POLICY_VIOLATION (Apache Kafka's limit is 10 000).
"""

from __future__ import annotations

from odradek.handlers.handler import Handler
from odradek.wire.generated.create_topics_request import CreateTopicsRequest

HANDLER = Handler(request=CreateTopicsRequest, versions=(2, 7), forwarded=True)
