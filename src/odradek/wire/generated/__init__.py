"""One module per message, made from `odradek/wire/messages` (see `odradek.wire.build`)."""

from odradek.wire.build import ensure

__path__ = ensure()
