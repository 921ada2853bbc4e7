"""`DecodersAtFirstUse`, which imports the handler of an API when its first request arrives."""

from __future__ import annotations

from collections.abc import Callable

from odradek.wire.primitives import Decoder


class DecodersAtFirstUse(dict[int, Decoder]):
    """The decoders of an API by version; empty until one of them is used."""

    def __init__(self, load: Callable[[], dict[int, Decoder]]) -> None:
        super().__init__()
        self._load = load

    def __missing__(self, version: int) -> Decoder:
        self.update(self._load())
        return self[version]
