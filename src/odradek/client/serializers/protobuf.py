"""Protobuf with a schema registry.

A schema is a class that protoc has generated, or a .proto text. Of a class, the descriptor of its file is
registered, in base64, which registries accept instead of the text, and before it the files that it
imports, each under its own name as the subject, except for those of google/protobuf.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from odradek.client.errors import SerializationError
from odradek.client.serializers.extra import needs
from odradek.client.serializers.framing import index_prefixes, read_indexes
from odradek.client.serializers.registered import (
    Choice,
    Given,
    RegisteredFormat,
    references_of,
)
from odradek.client.serializers.registry import PROTOBUF_TYPE, Registered, SchemaReference
from odradek.client.serializers.settings import RegistrySettings

with needs("Protobuf"):
    from google.protobuf import json_format
    from google.protobuf.descriptor import Descriptor, FileDescriptor
    from google.protobuf.message import DecodeError, EncodeError, Message

    from odradek.client.serializers import protobuf_schema
    from odradek.client.serializers.protobuf_schema import ProtobufSchemaError

_WELL_KNOWN = "google/protobuf/"


class Protobuf(RegisteredFormat):
    """A serializer and deserializer for Protobuf."""

    kind = PROTOBUF_TYPE

    def __init__(
        self,
        registry: RegistrySettings | str | Mapping[str, object],
        message: type[Message] | str | None = None,
        *,
        name: str | None = None,
        references: Sequence[SchemaReference | tuple[str, str, int]] = (),
        as_dict: bool = False,
        **choice: Any,
    ) -> None:
        """Make a serializer.

        `registry` is a URL or settings (`settings.parse_registry`). `message` is a generated class, or a
        .proto text, of which `name` is the message if it has several, and `references` are what it imports:
        name, subject and version. Values are messages, or dicts as in the JSON form of Protobuf. Without
        `message`, nothing can be written, and each value that is read is a message of its own schema. With
        `as_dict`, values that are read are dicts. `choice` has the fields of `registered.Choice`.

        Raises:
            ValueError: the schema or a setting is wrong.
            ClientError: the registry does not have a reference.
        """
        super().__init__(registry, Choice(**choice))
        self._as_dict = as_dict
        self._class: type[Message] | None = None
        self._given: Given | None = None
        self._indexes: tuple[int, ...] = ()
        if isinstance(message, str):
            used = references_of(references)
            imports = self.registry.texts_of(used) if used else ()
            schema = protobuf_schema.from_text(message, name, imports)
            self._class, self._indexes = schema.message_class, schema.indexes
            self._given = Given(message, schema.message, used)
        elif message is not None:
            descriptor = message.DESCRIPTOR
            self._class, self._indexes = message, _place(descriptor)
            self._given = Given(_text(descriptor.file), descriptor.full_name)

    def given(self, value: Any) -> Given:
        """See `RegisteredFormat`."""
        del value
        if self._given is None:
            raise SerializationError("the serializer has no message", "Give its class, or a text.")
        return self._given

    def encode(self, value: Any, found: Registered | None, start: bytes) -> bytes:
        """See `RegisteredFormat`."""
        kind = self._class
        assert kind is not None, "`given` was called before"
        indexes = self._indexes if found is None else _schema(found, kind).indexes
        if not isinstance(value, Message):
            try:
                value = json_format.ParseDict(value, kind())
            except (json_format.ParseError, AttributeError, TypeError) as error:
                raise SerializationError(
                    f"the value does not fit {kind.DESCRIPTOR.full_name}: {error}"
                ) from error
        elif value.DESCRIPTOR.full_name != kind.DESCRIPTOR.full_name:
            raise SerializationError(
                f"the value is a {value.DESCRIPTOR.full_name}, not a {kind.DESCRIPTOR.full_name}"
            )
        try:
            content: bytes = value.SerializeToString()
            return start + index_prefixes(indexes)[0] + content
        except (EncodeError, ValueError) as error:
            raise SerializationError(f"the message cannot be encoded: {error}") from error

    def decode(self, data: bytes, start: int, written: Registered) -> Any:
        """See `RegisteredFormat`."""
        indexes, start = read_indexes(data, start)
        kind = self._class
        try:
            if kind is None:
                kind = protobuf_schema.from_place(
                    written.text, indexes, written.references
                ).message_class
            message = kind.FromString(data[start:])
        except ProtobufSchemaError as error:
            raise SerializationError(
                f"schema {written.schema_id} in the registry: {error}"
            ) from error
        except DecodeError as error:
            raise SerializationError(f"it is no message of its schema: {error}") from error
        if self._as_dict:
            return json_format.MessageToDict(message, preserving_proto_field_name=True)
        return message

    def _id(self, subject: str, given: Given) -> int:
        if (
            self._class is not None
            and (subject, given.text) not in self._ids
            and not given.references
        ):
            used = [each for each in self._class.DESCRIPTOR.file.dependencies if _is_own(each)]
            if used:
                given = given._replace(references=tuple(self._reference(each) for each in used))
        return super()._id(subject, given)

    def _reference(self, file: FileDescriptor) -> SchemaReference:
        """Register a file that is imported, and those that it imports."""
        used = [self._reference(each) for each in file.dependencies if _is_own(each)]
        text = _text(file)
        add = (
            self.registry.register
            if self._choice.auto_register_schemas
            else self.registry.registered
        )
        add(file.name, self.kind, text, used, normalizes=self._choice.normalize_schemas)
        return SchemaReference(
            file.name, file.name, self.registry.version_of(file.name, self.kind, text, used)
        )


def _is_own(file: FileDescriptor) -> bool:
    return not file.name.startswith(_WELL_KNOWN)


def _text(file: FileDescriptor) -> str:
    return base64.b64encode(file.serialized_pb).decode()


def _place(descriptor: Descriptor) -> tuple[int, ...]:
    """Return the place of a message in its file. Entries of maps do not count."""
    around = descriptor.containing_type
    siblings = (
        list(descriptor.file.message_types_by_name.values())
        if around is None
        else list(around.nested_types)
    )
    own = [each.full_name for each in siblings if not each.GetOptions().map_entry]
    above = () if around is None else _place(around)
    return (*above, own.index(descriptor.full_name))


def _schema(found: Registered, kind: type[Message]) -> protobuf_schema.ProtobufSchema:
    try:
        return protobuf_schema.from_text(found.text, kind.DESCRIPTOR.full_name, found.references)
    except ProtobufSchemaError as error:
        raise SerializationError(f"schema {found.schema_id} in the registry: {error}") from error
