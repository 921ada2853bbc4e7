"""CreatePartitions (37), versions 0-3: the controller adds partitions to topics.

- The count is the new total number of partitions. A request may assign the replicas of the new
  partitions. With `validate_only` nothing is changed.
- If a request contains a topic twice, the error is INVALID_REQUEST. If the count is not larger than
  the current count, the error is INVALID_PARTITIONS.
"""

from __future__ import annotations

from odradek.handlers.decisions import decide
from odradek.handlers.handler import Handler
from odradek.wire.generated.create_partitions_request import CreatePartitionsRequest

HANDLER = Handler(request=CreatePartitionsRequest, controller=decide)
