"""How each type of Avro becomes a column of Spark, and back, in bulk.

The library fastavro converts a byte string to Python objects, and Arrow converts the objects of many
rows to a raw column. A shape converts raw columns to columns of Spark's types, and back. For this the
library gets another schema than the given one, with the same encoding:

- Without logical types: numbers stay numbers, and whole columns are converted to times and decimals.
- A map is an array of entries, which are records of a key and a value. Both are encoded alike.
- Each branch of a union of several types is a record with one field. A record is encoded as its
  fields are. So the result is what Spark's `from_avro` returns: a struct with the fields `member0`,
  `member1` and so on, of which one is not null.

The types of Spark are those of `from_avro`, and all fields are nullable.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from odradek.client.suggestion import nearest
from odradek.spark.values import decimals

MILLI = 1000
"""Microseconds in a millisecond."""


@dataclass(frozen=True)
class Shape:
    """A type that needs no conversion, or only a cast. Other shapes are derived from it."""

    avro: Any
    """The schema for the library."""
    name: str
    """The type in error messages."""
    raw: pa.DataType
    spark: DataType
    accepts: tuple[type[DataType], ...]
    """The types of Spark that can be written as this type."""
    is_nullable: bool = False

    def column(self, raw: pa.Array, target: pa.DataType) -> pa.Array:
        """Convert a raw column to a column of Spark.

        Raises:
            pa.ArrowInvalid: a value has no counterpart in Spark.
        """
        return raw if raw.type == target else raw.cast(target)

    def raw_of(self, column: pa.Array) -> pa.Array:
        """Convert a column of Spark to a raw column."""
        return column if column.type == self.raw else column.cast(self.raw)

    def check(self, found: DataType, path: str) -> None:
        """Check that a column of Spark can be written.

        Raises:
            ValueError: it is of another type. `path` names it in the message.
        """
        if not isinstance(found, self.accepts):
            raise ValueError(
                f"{path} is of type {found.simpleString()}, but {self.name} in the schema"
            )

    def default(self, value: Any) -> Any:
        """Return the default value of a field, as the schema for the library has it."""
        return value


@dataclass(frozen=True)
class Bytes(Shape):
    """Bytes, whose default value is a string in the schema."""

    def default(self, value: Any) -> Any:
        """See `Shape`."""
        return value.encode("latin-1") if isinstance(value, str) else value


@dataclass(frozen=True)
class Times(Shape):
    """Times, which are numbers."""

    unit: int = 1
    """Microseconds in one of the numbers."""

    def column(self, raw: pa.Array, target: pa.DataType) -> pa.Array:
        """See `Shape`."""
        numbers = raw if self.unit == 1 else pc.multiply_checked(raw, self.unit)
        return numbers.cast(target)

    def raw_of(self, column: pa.Array) -> pa.Array:
        """See `Shape`."""
        numbers = column.cast(pa.int64())
        if self.unit == 1:
            return numbers
        quotient = pc.divide(numbers, self.unit)
        is_below = pc.less(numbers, pc.multiply(quotient, self.unit))
        return pc.subtract(quotient, is_below.cast(pa.int64()))


@dataclass(frozen=True)
class Decimals(Bytes):
    """Decimals, which are unscaled numbers. `size` is None if their sizes differ."""

    size: int | None = None

    def column(self, raw: pa.Array, target: pa.DataType) -> pa.Array:
        """See `Shape`."""
        return decimals.decoded(raw.cast(pa.binary()), target)

    def raw_of(self, column: pa.Array) -> pa.Array:
        """See `Shape`."""
        return decimals.encoded(column, self.size)

    def check(self, found: DataType, path: str) -> None:
        """See `Shape`."""
        wanted = self.spark
        assert isinstance(wanted, DecimalType)
        fits = (
            isinstance(found, DecimalType)
            and found.scale == wanted.scale
            and found.precision <= wanted.precision
        )
        if not fits:
            raise ValueError(
                f"{path} is of type {found.simpleString()}, but {wanted.simpleString()} in the "
                "schema"
            )


@dataclass(frozen=True)
class Lists(Shape):
    """Arrays."""

    element: Shape | None = None

    def column(self, raw: pa.Array, target: pa.DataType) -> pa.Array:
        """See `Shape`."""
        assert self.element is not None
        elements = self.element.column(raw.values, target.value_type)
        return _nested(raw, target, elements)

    def raw_of(self, column: pa.Array) -> pa.Array:
        """See `Shape`."""
        assert self.element is not None
        elements = self.element.raw_of(column.values)
        return _nested(column, pa.list_(elements.type), elements)

    def check(self, found: DataType, path: str) -> None:
        """See `Shape`."""
        super().check(found, path)
        assert isinstance(found, ArrayType)
        assert self.element is not None
        self.element.check(found.elementType, f"{path}[]")

    def default(self, value: Any) -> Any:
        """See `Shape`."""
        assert self.element is not None
        return [self.element.default(each) for each in value]


@dataclass(frozen=True)
class Maps(Shape):
    """Maps, which are lists of entries."""

    value: Shape | None = None

    def column(self, raw: pa.Array, target: pa.DataType) -> pa.Array:
        """See `Shape`."""
        assert self.value is not None
        keys, values = raw.values.flatten()
        fields = [target.key_field, target.item_field]
        items = self.value.column(values, target.item_type)
        return _nested(raw, target, pa.StructArray.from_arrays([keys, items], fields=fields))

    def raw_of(self, column: pa.Array) -> pa.Array:
        """See `Shape`."""
        assert self.value is not None
        items = self.value.raw_of(column.items)
        entries = pa.StructArray.from_arrays([column.keys, items], ["key", "value"])
        return _nested(column, pa.list_(entries.type), entries)

    def check(self, found: DataType, path: str) -> None:
        """See `Shape`."""
        super().check(found, path)
        assert isinstance(found, MapType)
        assert self.value is not None
        if not isinstance(found.keyType, StringType):
            raise ValueError(f"{path} has keys that are no strings: maps of Avro have only these")
        self.value.check(found.valueType, f"{path}{{}}")

    def default(self, value: Any) -> Any:
        """See `Shape`."""
        assert self.value is not None
        return [{"key": key, "value": self.value.default(each)} for key, each in value.items()]


@dataclass(frozen=True)
class Field:
    """A field of a record."""

    name: str
    shape: Shape
    has_default: bool


@dataclass(frozen=True)
class Structs(Shape):
    """Records, and unions of several types, which are records of which one field is not null."""

    fields: Sequence[Field] = ()
    is_union: bool = False

    def column(self, raw: pa.Array, target: pa.DataType) -> pa.Array:
        """See `Shape`."""
        columns = [
            field.shape.column(each, target.field(number).type)
            for number, (field, each) in enumerate(zip(self.fields, raw.flatten(), strict=True))
        ]
        return _struct(raw, columns, list(target))

    def raw_of(self, column: pa.Array) -> pa.Array:
        """See `Shape`."""
        shapes = {field.name: field.shape for field in self.fields}
        names = [each.name for each in column.type]
        columns = [
            shapes[name].raw_of(each) for name, each in zip(names, column.flatten(), strict=True)
        ]
        kinds = zip(names, columns, strict=True)
        return _struct(column, columns, [pa.field(name, each.type) for name, each in kinds])

    def check(self, found: DataType, path: str) -> None:
        """See `Shape`."""
        super().check(found, path)
        assert isinstance(found, StructType)
        frame = {field.name: field.dataType for field in found.fields}
        for field in self.fields:
            where = f"{path}.{field.name}"
            if field.name in frame:
                field.shape.check(frame.pop(field.name), where)
            elif not (self.is_union or field.shape.is_nullable or field.has_default):
                raise ValueError(
                    f"{where} is missing: in the schema the field is not nullable, and has no "
                    "default"
                )
        if frame:
            name, known = next(iter(frame)), [field.name for field in self.fields]
            raise ValueError(
                f"the schema has no field {path}.{name}{nearest(name, known)}. It has "
                f"{', '.join(known)}"
            )

    def default(self, value: Any) -> Any:
        """See `Shape`."""
        if self.is_union:  # the default is of the first branch
            first = self.fields[0]
            return {first.name: first.shape.default(value)}
        return {
            field.name: field.shape.default(value[field.name])
            for field in self.fields
            if field.name in value
        }


def struct_type(fields: Sequence[Field]) -> StructType:
    """Return the type of a struct in Spark."""
    return StructType([StructField(field.name, field.shape.spark) for field in fields])


def raw_struct(fields: Sequence[Field]) -> pa.DataType:
    """Return the type of a struct of raw columns."""
    return pa.struct([(field.name, field.shape.raw) for field in fields])


def _nested(lists: pa.Array, kind: pa.DataType, elements: pa.Array) -> pa.Array:
    """Return lists with other elements."""
    return pa.Array.from_buffers(
        kind, len(lists), lists.buffers()[:2], offset=lists.offset, children=[elements]
    )


def _struct(like: pa.Array, columns: list[pa.Array], fields: list[pa.Field]) -> pa.Array:
    """Return a struct that is null where another one is."""
    if not columns:
        return like
    mask = like.is_null() if like.null_count else None
    return pa.StructArray.from_arrays(columns, fields=fields, mask=mask)
