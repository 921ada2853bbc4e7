"""UpdateFeatures (57), versions 0-2: the controller changes levels of finalized features (KIP-584).

- If one change is invalid, no level is changed, and the error is INVALID_UPDATE_VERSION.
- Every registered node must support the new level. A downgrade must be requested explicitly.
  metadata.version is never lowered if the cluster may have records of the higher level.
- kraft.version can be raised to 1 when all voters have sent UpdateRaftVoter (KAFKA-16538).
"""

from __future__ import annotations

from odradek.handlers.decisions import decide
from odradek.handlers.handler import Handler
from odradek.wire.generated.update_features_request import UpdateFeaturesRequest

HANDLER = Handler(request=UpdateFeaturesRequest, controller=decide)
