"""The APIs by key: names, versions, listeners, and the classes of their messages."""

from __future__ import annotations

import importlib
from typing import NamedTuple, cast

from odradek.model import api_keys
from odradek.wire.generated.registry import APIS
from odradek.wire.names import snake_case
from odradek.wire.primitives import Message


class Api(NamedTuple):
    """The declaration of an API. A node serves an API only if it has a handler for it."""

    key: int
    name: str
    version_min: int
    version_max: int
    flexible_min: int
    """First flexible version; 32767 if there is none."""
    unstable_min: int
    """First version that is not stable yet; 32767 if all versions are stable."""
    listeners: tuple[str, ...]

    def request_header_version(self, version: int) -> int:
        """Return the version of the request header for a version of the API."""
        return 2 if version >= self.flexible_min else 1

    def response_header_version(self, version: int) -> int:
        """Return the version of the response header for a version of the API.

        ApiVersions always uses header version 0, because the client does not know yet which
        versions the node supports.
        """
        return 1 if version >= self.flexible_min and self.key != api_keys.API_VERSIONS else 0

    def request_class(self) -> type[Message]:
        """Import and return the class of the request."""
        return message_class(self.name + "Request")

    def response_class(self) -> type[Message]:
        """Import and return the class of the response."""
        return message_class(self.name + "Response")


def message_class(name: str) -> type[Message]:
    """Import and return the generated class of the message with this name."""
    module = importlib.import_module(f"odradek.wire.generated.{snake_case(name)}")
    return cast("type[Message]", getattr(module, name))


BY_KEY: dict[int, Api] = {row[0]: Api(*row) for row in APIS}
BY_NAME: dict[str, Api] = {api.name: api for api in BY_KEY.values()}
