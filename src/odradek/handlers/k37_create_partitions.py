"""CreatePartitions (37), versions 0-3: topics get more partitions; decided by the controller.

- The count is the new total. The request may assign the replicas of the new partitions.
  `validate_only` changes nothing.
- A topic named twice is INVALID_REQUEST; a count that is not larger than the current one is
  INVALID_PARTITIONS.
"""

from __future__ import annotations

from odradek.handlers.handler import Handler
from odradek.wire.generated.create_partitions_request import CreatePartitionsRequest

HANDLER = Handler(request=CreatePartitionsRequest, versions=(0, 3), forwarded=True)
