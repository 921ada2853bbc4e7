"""UpdateFeatures (57), versions 0-2: levels of finalized features change (KIP-584).

- Decided by the controller: all features or, with INVALID_UPDATE_VERSION, none. A level must be
  supported by every registered node; a downgrade must be requested explicitly; metadata.version is
  never lowered if the cluster may have newer records.
- Gap: kraft.version cannot be changed while the cluster runs.
"""

from __future__ import annotations

from odradek.handlers.handler import Handler
from odradek.wire.generated.update_features_request import UpdateFeaturesRequest

HANDLER = Handler(request=UpdateFeaturesRequest, versions=(0, 2), forwarded=True)
