"""CreateTopics (19), versions 2-7: the controller creates topics.

- A partition count or replication factor of -1 means the broker's default, in all served versions.
  A request may assign the replicas. With `validate_only` the response is the same, and no topic is
  created.
- If a request contains a topic twice, or the topic `__cluster_metadata`, this topic gets the error
  INVALID_REQUEST. A name that differs from an existing name only in '.' and '_' is rejected.
- The response contains the topic's settings from version 5 on, and the topic id from version 7 on.
- A request for more than 100 000 partitions gets the error POLICY_VIOLATION. Apache Kafka's limit
  is 10 000.
"""

from __future__ import annotations

from odradek.handlers.decisions import decide
from odradek.handlers.handler import Handler
from odradek.wire.generated.create_topics_request import CreateTopicsRequest

HANDLER = Handler(request=CreateTopicsRequest, controller=decide)
