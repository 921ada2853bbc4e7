"""How each field of a message of Protobuf becomes a column of Spark, and back, in bulk.

The library parses each message. Then the values of one field of all messages become a column in one
step: a list in Python, and an Arrow array of it. The types, and what is null, are those of Spark's
`from_protobuf`, with its options:

- A field that is not set is null, unless the schema gives a default. Without presence (proto3), a
  field with the value zero is not set. With `emit.default.values` it is zero.
- Repeated fields and maps are never null.
- Enums are their names, or numbers with `enums.as.ints`.
- Unsigned numbers have the type of the signed ones, or a larger type with `upcast.unsigned.ints`.
- Messages of google/protobuf/wrappers.proto are structs, or plain values with
  `unwrap.primitive.wrapper.types`.
- Timestamp and Duration are a timestamp and an interval.
- Fields of messages without any field are omitted.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from google.protobuf import message_factory
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from odradek.client.serializers.protobuf_schema import ProtobufSchema, ProtobufSchemaError
from odradek.client.suggestion import nearest
from odradek.spark.values.settings import ProtobufOptions

MICRO, MICROS = 1000, 1_000_000
"""Nanoseconds in a microsecond, and microseconds in a second."""
WRAPPERS = {
    f"google.protobuf.{name}Value"
    for name in ("Bool", "Int32", "UInt32", "Int64", "UInt64", "String", "Bytes", "Float", "Double")
}
SMALL: tuple[type[DataType], ...] = (ByteType, ShortType, IntegerType)
LARGE: tuple[type[DataType], ...] = (*SMALL, LongType)
F = FieldDescriptor
SCALARS: dict[int, tuple[pa.DataType, DataType, tuple[type[DataType], ...]]] = {
    F.CPPTYPE_BOOL: (pa.bool_(), BooleanType(), (BooleanType,)),
    F.CPPTYPE_INT32: (pa.int32(), IntegerType(), SMALL),
    F.CPPTYPE_INT64: (pa.int64(), LongType(), LARGE),
    F.CPPTYPE_FLOAT: (pa.float32(), FloatType(), (FloatType,)),
    F.CPPTYPE_DOUBLE: (pa.float64(), DoubleType(), (FloatType, DoubleType)),
}
UNSIGNED = DecimalType(20, 0)
"""The type of uint64 with `upcast.unsigned.ints`."""

Values = Sequence[Any]


@dataclass(frozen=True)
class Shape:
    """A type of values."""

    name: str
    """The type in error messages."""
    spark: DataType
    accepts: tuple[type[DataType], ...]
    """The types of Spark that can be written as this type."""

    def column(self, values: Values, target: pa.DataType) -> pa.Array:
        """Return the column of values.

        Raises:
            pa.ArrowInvalid: a value has no counterpart in Spark.
        """
        return pa.array(values, target)

    def raw_of(self, column: pa.Array) -> pa.Array:
        """Return a column whose values can be given to the library."""
        return column

    def check(self, found: DataType, path: str) -> None:
        """Check that a column of Spark can be written.

        Raises:
            ValueError: it is of another type. `path` names it in the message.
        """
        if not isinstance(found, self.accepts):
            raise ValueError(
                f"{path} is of type {found.simpleString()}, but {self.name} in the schema"
            )


@dataclass(frozen=True)
class Unsigned(Shape):
    """Unsigned numbers."""

    raw: pa.DataType
    signed: pa.DataType
    is_widened: bool
    """Whether the column has a larger type."""

    def column(self, values: Values, target: pa.DataType) -> pa.Array:
        """See `Shape`."""
        numbers = pa.array(values, self.raw)
        return numbers.cast(target) if self.is_widened else numbers.view(target)

    def raw_of(self, column: pa.Array) -> pa.Array:
        """See `Shape`."""
        if not self.is_widened:
            return column.cast(self.signed).view(self.raw)
        return column.cast(self.raw)


@dataclass(frozen=True)
class Enums(Shape):
    """Names of enums. A number without a name gets the one that Java gives it."""

    enum: EnumDescriptor

    def column(self, values: Values, target: pa.DataType) -> pa.Array:
        """See `Shape`."""
        names = {number: each.name for number, each in self.enum.values_by_number.items()}
        for number in set(values) - names.keys():
            names[number] = f"UNKNOWN_ENUM_VALUE_{self.enum.name}_{number}"
        return pa.array([names[number] for number in values], target)


@dataclass(frozen=True)
class Times(Shape):
    """Timestamps and durations."""

    def column(self, values: Values, target: pa.DataType) -> pa.Array:
        """See `Shape`."""
        seconds = pa.array(list(map(attrgetter("seconds"), values)), pa.int64())
        nanos = pa.array(list(map(attrgetter("nanos"), values)), pa.int64())
        micros = pc.add_checked(pc.multiply_checked(seconds, MICROS), pc.divide(nanos, MICRO))
        return micros.cast(target)

    def raw_of(self, column: pa.Array) -> pa.Array:
        """See `Shape`."""
        micros = column.cast(pa.int64())
        seconds = pc.divide(micros, MICROS)
        if pa.types.is_timestamp(column.type):  # the nanoseconds of a time are not negative
            is_below = pc.less(micros, pc.multiply(seconds, MICROS))
            seconds = pc.subtract(seconds, is_below.cast(pa.int64()))
        nanos = pc.multiply(pc.subtract(micros, pc.multiply(seconds, MICROS)), MICRO)
        names = ["seconds", "nanos"]
        return pa.StructArray.from_arrays([seconds, nanos], names, mask=column.is_null())


@dataclass(frozen=True)
class Wrapped(Shape):
    """Values in a message of one field."""

    inner: Shape

    def column(self, values: Values, target: pa.DataType) -> pa.Array:
        """See `Shape`."""
        return self.inner.column(list(map(attrgetter("value"), values)), target)

    def raw_of(self, column: pa.Array) -> pa.Array:
        """See `Shape`."""
        inner = self.inner.raw_of(column)
        return pa.StructArray.from_arrays([inner], ["value"], mask=column.is_null())


@dataclass(frozen=True)
class Field:
    """A field of a message."""

    name: str
    shape: Shape
    is_repeated: bool
    is_required: bool
    is_message: bool
    has_presence: bool
    has_default: bool

    @property
    def spark(self) -> DataType:
        """The type of the column."""
        if not self.is_repeated or isinstance(self.shape, Entries):
            return self.shape.spark
        return ArrayType(self.shape.spark)


@dataclass(frozen=True)
class Structs(Shape):
    """Messages."""

    fields: tuple[Field, ...]
    emits_defaults: bool

    def column(self, values: Values, target: pa.DataType) -> pa.Array:
        """See `Shape`."""
        columns = [
            self._field(field, values, target.field(number).type)
            for number, field in enumerate(self.fields)
        ]
        return pa.StructArray.from_arrays(columns, fields=list(target))

    def _field(self, field: Field, messages: Values, target: pa.DataType) -> pa.Array:
        values = list(map(attrgetter(field.name), messages))
        if field.is_repeated:
            counts = np.fromiter(map(len, values), np.int64, len(values))
            bounds = np.zeros(len(values) + 1, np.int32)
            np.cumsum(counts, out=bounds[1:])
            elements = list(chain.from_iterable(values))
            if isinstance(field.shape, Entries):
                return field.shape.maps(elements, target, bounds)
            column = field.shape.column(elements, target.value_type)
            return _nested(target, pa.py_buffer(bounds), column)
        column = field.shape.column(values, target)
        present = self._present(field, values, messages)
        if present is None or all(present):
            return column
        return pc.if_else(pa.array(present, pa.bool_()), column, pa.scalar(None, target))

    def _present(self, field: Field, values: Values, messages: Values) -> list[bool] | None:
        """Return which messages have a field; None if all have."""
        if field.has_presence:
            if field.has_default and not field.is_message:
                return None
            return [message.HasField(field.name) for message in messages]
        if self.emits_defaults:
            return None
        if isinstance(field.shape.spark, FloatType | DoubleType):  # -0.0 is set
            present: list[bool] = (np.array(values, np.float64).view(np.int64) != 0).tolist()
            return present
        return list(map(bool, values))

    def raw_of(self, column: pa.Array) -> pa.Array:
        """See `Shape`."""
        fields = {field.name: field for field in self.fields}
        names = [each.name for each in column.type]
        columns = [
            _raw_of_field(fields[name], each)
            for name, each in zip(names, column.flatten(), strict=True)
        ]
        return pa.StructArray.from_arrays(columns, names, mask=column.is_null())

    def check(self, found: DataType, path: str) -> None:
        """See `Shape`."""
        super().check(found, path)
        assert isinstance(found, StructType)
        frame = {field.name: field.dataType for field in found.fields}
        for field in self.fields:
            where = f"{path}.{field.name}"
            if field.name not in frame:
                if field.is_required:
                    raise ValueError(f"{where} is missing: the schema requires it")
                continue
            kind = frame.pop(field.name)
            if field.is_repeated and not isinstance(field.shape, Entries):
                if not isinstance(kind, ArrayType):
                    raise ValueError(
                        f"{where} is of type {kind.simpleString()}, but repeated in the schema"
                    )
                field.shape.check(kind.elementType, f"{where}[]")
            else:
                field.shape.check(kind, where)
        if frame:
            name, known = next(iter(frame)), [field.name for field in self.fields]
            raise ValueError(
                f"the schema has no field {path}.{name}{nearest(name, known)}. It has "
                f"{', '.join(known)}"
            )


@dataclass(frozen=True)
class Entries(Shape):
    """Maps, which are repeated entries."""

    key: Shape
    value: Shape

    def maps(self, entries: Values, target: pa.DataType, bounds: Any) -> pa.Array:
        """Return maps of entries. Entry `bounds[n]` is the first one of map n.

        If several entries of a map have the same key, only the last one counts.
        """
        keys = list(map(attrgetter("key"), entries))
        if entries:
            keys, entries, bounds = _last_of_each_key(keys, entries, bounds)
        columns = [
            self.key.column(keys, target.key_type),
            self.value.column(list(map(attrgetter("value"), entries)), target.item_type),
        ]
        fields = [target.key_field, target.item_field]
        return _nested(
            target, pa.py_buffer(bounds), pa.StructArray.from_arrays(columns, fields=fields)
        )

    def raw_of(self, column: pa.Array) -> pa.Array:
        """See `Shape`."""
        parts = [self.key.raw_of(column.keys), self.value.raw_of(column.items)]
        entries = pa.StructArray.from_arrays(parts, ["key", "value"])
        return pa.Array.from_buffers(
            pa.list_(entries.type),
            len(column),
            column.buffers()[:2],
            offset=column.offset,
            children=[entries],
        )

    def check(self, found: DataType, path: str) -> None:
        """See `Shape`."""
        super().check(found, path)
        assert isinstance(found, MapType)
        self.key.check(found.keyType, f"{path}{{}}")
        self.value.check(found.valueType, f"{path}{{}}")


def _last_of_each_key(
    keys: list[Any], entries: Values, bounds: Any
) -> tuple[list[Any], Values, Any]:
    rows = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds)).tolist()
    last = {pair: number for number, pair in enumerate(zip(rows, keys, strict=True))}
    if len(last) == len(keys):
        return keys, entries, bounds
    kept = list(last.values())  # in the order of the first occurrence, so by row
    counts = np.bincount([rows[number] for number in kept], minlength=len(bounds) - 1)
    fewer = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
    return [keys[number] for number in kept], [entries[number] for number in kept], fewer


def _nested(kind: pa.DataType, bounds: pa.Buffer, elements: pa.Array) -> pa.Array:
    count = bounds.size // 4 - 1
    return pa.Array.from_buffers(kind, count, [None, bounds], children=[elements])


def _raw_of_field(field: Field, column: pa.Array) -> pa.Array:
    if not field.is_repeated or isinstance(field.shape, Entries):
        return field.shape.raw_of(column)
    elements = field.shape.raw_of(column.values)
    return pa.Array.from_buffers(
        pa.list_(elements.type),
        len(column),
        column.buffers()[:2],
        offset=column.offset,
        children=[elements],
    )


@dataclass(frozen=True)
class Prepared:
    """What is needed to convert messages of one type."""

    shape: Structs
    new: Callable[..., Message]
    parse: Callable[[bytes], Message]
    has_required: bool
    """Whether a field may be missing, which the library does not notice when it parses (proto2)."""


@functools.lru_cache(maxsize=1000)
def prepare(schema: ProtobufSchema, options: ProtobufOptions) -> Prepared:
    """Return how the messages of a schema are converted.

    Raises:
        ProtobufSchemaError: the schema is wrong, or a type has no counterpart in Spark.
    """
    descriptor = schema.descriptor
    shape = _Builder(schema.entries, options).message(descriptor)
    if shape is None:
        raise ProtobufSchemaError(f"the message {schema.message} has no fields")
    made = message_factory.GetMessageClass(descriptor)
    return Prepared(shape, made, made.FromString, _has_required(shape))


def _has_required(shape: Shape) -> bool:
    if isinstance(shape, Entries):
        return _has_required(shape.value)
    if not isinstance(shape, Structs):
        return False
    return any(each.is_required or _has_required(each.shape) for each in shape.fields)


class _Builder:
    def __init__(self, entries: frozenset[str], options: ProtobufOptions) -> None:
        self._entries = entries
        self._options = options
        self._open: list[str] = []

    def message(self, descriptor: Descriptor) -> Structs | None:
        """Return the shape of a message; None if it has no fields."""
        if descriptor.full_name in self._open:
            raise ProtobufSchemaError(
                f"the message {descriptor.full_name} contains itself: columns of Spark cannot be "
                "recursive"
            )
        self._open.append(descriptor.full_name)
        fields = tuple(
            Field(
                each.name,
                shape,
                is_repeated=each.is_repeated,
                is_required=each.is_required,
                is_message=each.cpp_type == F.CPPTYPE_MESSAGE,
                has_presence=each.has_presence,
                has_default=each.has_default_value,
            )
            for each in descriptor.fields
            if (shape := self._shape(each)) is not None
        )
        self._open.pop()
        if not fields:
            return None
        spark = StructType([StructField(each.name, each.spark) for each in fields])
        name = f"message {descriptor.full_name}"
        return Structs(name, spark, (StructType,), fields, self._options.emits_defaults)

    def _shape(self, field: FieldDescriptor) -> Shape | None:
        if field.cpp_type == F.CPPTYPE_MESSAGE:
            return self._message_shape(field.message_type)
        if field.cpp_type == F.CPPTYPE_STRING:
            if field.type == F.TYPE_BYTES:
                return Shape("bytes", BinaryType(), (BinaryType,))
            return Shape("string", StringType(), (StringType,))
        if field.cpp_type == F.CPPTYPE_ENUM:
            enum = field.enum_type
            if self._options.enums_as_numbers:
                return Shape(f"enum {enum.full_name}", IntegerType(), SMALL)
            return Enums(f"enum {enum.full_name}", StringType(), (StringType,), enum)
        if field.cpp_type in {F.CPPTYPE_UINT32, F.CPPTYPE_UINT64}:
            return self._unsigned(is_large=field.cpp_type == F.CPPTYPE_UINT64)
        raw, spark, accepts = SCALARS[field.cpp_type]
        return Shape(str(raw), spark, accepts)

    def _unsigned(self, *, is_large: bool) -> Shape:
        raw, signed = (pa.uint64(), pa.int64()) if is_large else (pa.uint32(), pa.int32())
        spark: DataType
        if not self._options.widens_unsigned:
            spark, accepts = (LongType(), LARGE) if is_large else (IntegerType(), SMALL)
        else:
            spark, accepts = (UNSIGNED, (DecimalType,)) if is_large else (LongType(), LARGE)
        return Unsigned(
            str(raw), spark, accepts, raw, signed, is_widened=self._options.widens_unsigned
        )

    def _message_shape(self, descriptor: Descriptor) -> Shape | None:
        fields = {each.name: each for each in descriptor.fields}
        if descriptor.full_name in self._entries:
            key, value = self._shape(fields["key"]), self._shape(fields["value"])
            if key is None or value is None:
                return None
            return Entries("map", MapType(key.spark, value.spark), (MapType,), key, value)
        if list(fields) == ["seconds", "nanos"]:
            if descriptor.name == "Timestamp":
                return Times("Timestamp", TimestampType(), (TimestampType,))
            if descriptor.name == "Duration":
                return Times("Duration", DayTimeIntervalType(), (DayTimeIntervalType,))
        if self._options.unwraps and descriptor.full_name in WRAPPERS:
            inner = self._shape(fields["value"])
            assert inner is not None, "wrappers contain scalars"
            return Wrapped(inner.name, inner.spark, inner.accepts, inner)
        return self.message(descriptor)
