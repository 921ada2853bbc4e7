"""The protocol: one declaration per message, and the codecs made from them.

`messages/` holds the declarations, `declaration` reads them, `generator` makes straight-line Python
from them, `build` puts it into `generated/`, where `from odradek.wire.generated.x import X` finds
it. `api` lists the APIs by key; `primitives` has functions that the generated code uses.
"""
