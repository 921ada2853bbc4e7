"""The record of the description of a topology, which Apache Kafka does not have.

The key has the group id, and the value is the request with which a member sent the description. A
coordinator of Apache Kafka skips the record, because it does not know its type.
"""

from __future__ import annotations

from typing import Any, Final

from odradek.wire.generated.streams_group_topology_description_update_request import (
    StreamsGroupTopologyDescriptionUpdateRequest,
)
from odradek.wire.generated.streams_group_topology_key import StreamsGroupTopologyKey

KIND: Final = 1000
"""The type of the record. Apache Kafka numbers its types from 0."""

DescriptionValue = StreamsGroupTopologyDescriptionUpdateRequest


class DescriptionKey(StreamsGroupTopologyKey):
    """The key. It has the same bytes as the key of the group's topology, except for the type."""

    __slots__ = ()


def _decode(buffer: Any, position: int) -> tuple[DescriptionKey, int]:
    plain, end = StreamsGroupTopologyKey.DECODERS[0](buffer, position)
    return DescriptionKey(group_id=plain.group_id), end


DescriptionKey.API_KEY = KIND
DescriptionKey.DECODERS = {0: _decode}
