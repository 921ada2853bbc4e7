"""CreatePartitions (37), versions 0-3: topics get more partitions; decided by the controller.

- The count is what the topic is to have then. Replicas of the new partitions may be assigned by
  hand. `validate_only` changes nothing.
- A topic named twice is INVALID_REQUEST; a count that is no increase is INVALID_PARTITIONS.
"""

from __future__ import annotations

from odradek.handlers.handler import Handler
from odradek.wire.generated.create_partitions_request import CreatePartitionsRequest

HANDLER = Handler(request=CreatePartitionsRequest, versions=(0, 3), forwarded=True)
