"""Serializers: keys and values as Python objects instead of bytes.

    from odradek.client.serializers import Avro, Text

    value = Avro("http://localhost:8081", schema)
    with Producer(settings, key_serializer=Text(), value_serializer=value) as producer:
        producer.send("users", {"name": "Odradek"}, key="o")

Each class is a serializer and a deserializer (`interface`). `simple` has those without schemas. `avro`,
`protobuf` and `json_schema` have a schema registry (`registered`, `registry`, `settings`), whose wire format
(`framing`) and subjects (`subjects`) are Confluent's. `avro_library` and `protobuf_schema` read schemas; the
columns of `odradek.spark` use them, too. A library is imported with the class that needs it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from odradek.client.serializers.avro import Avro
    from odradek.client.serializers.json_schema import JsonSchema
    from odradek.client.serializers.protobuf import Protobuf
    from odradek.client.serializers.simple import (
        Boolean,
        Double,
        Float,
        Integer,
        Json,
        Long,
        Raw,
        Short,
        Text,
        Uuid,
    )

__all__ = [
    "Avro",
    "Boolean",
    "Double",
    "Float",
    "Integer",
    "Json",
    "JsonSchema",
    "Long",
    "Protobuf",
    "Raw",
    "Short",
    "Text",
    "Uuid",
]

_OWN = {"Avro": "avro", "JsonSchema": "json_schema", "Protobuf": "protobuf"}
"""The modules of classes that are not in `simple`."""


def __getattr__(name: str) -> Any:
    """Import a class when it is first used."""
    if name in __all__:
        return getattr(import_module(f"{__name__}.{_OWN.get(name, 'simple')}"), name)
    raise AttributeError(f"module {__name__} has no attribute {name}")
