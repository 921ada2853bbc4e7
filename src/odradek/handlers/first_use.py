"""`DecodersAtFirstUse`, which imports the handler of an API when its first request arrives."""

from __future__ import annotations

from collections.abc import Callable

from odradek.wire.primitives import Decoder


class HandlerUnavailable(Exception):
    """The handler of an API cannot be imported now. The cause says why."""


class DecodersAtFirstUse(dict[int, Decoder]):
    """The decoders of an API by version; empty until one of them is used."""

    def __init__(self, load: Callable[[], dict[int, Decoder]]) -> None:
        super().__init__()
        self._load = load

    def __missing__(self, version: int) -> Decoder:
        try:
            decoders = self._load()
        except Exception as error:
            raise HandlerUnavailable from error  # not to be taken for the error of a decoder
        self.update(decoders)
        return self[version]
