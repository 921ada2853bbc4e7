"""Connect's data: schemas, structs and the logical types.

A value of a schema is a Python object:

| type | Python |
|---|---|
| int8 to int64, float32, float64, boolean, string | int, float, bool, str |
| bytes | bytes |
| array, map | list, dict |
| struct | `Struct` |
| Decimal, Date, Time, Timestamp | `decimal.Decimal`, `datetime.date`, `datetime.time`, `datetime.datetime` with UTC |

Without a schema, an int is an int64, and a float is a float64.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import Enum
from typing import Any, NamedTuple

from odradek.core.connect.errors import DataError, SchemaBuilderError


class Type(Enum):
    """The type of a schema. The value is its name in JSON schemas."""

    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT32 = "float"
    FLOAT64 = "double"
    BOOLEAN = "boolean"
    STRING = "string"
    BYTES = "bytes"
    ARRAY = "array"
    MAP = "map"
    STRUCT = "struct"

    @property
    def is_primitive(self) -> bool:
        """Whether values have no parts."""
        return self not in (Type.ARRAY, Type.MAP, Type.STRUCT)


INTEGER_BITS = {Type.INT8: 8, Type.INT16: 16, Type.INT32: 32, Type.INT64: 64}


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a struct."""

    name: str
    index: int
    schema: Schema


@dataclass(frozen=True, slots=True)
class Schema:
    """The type of a value, and what is known about it. Two equal schemas are interchangeable."""

    type: Type
    is_optional: bool = False
    default: Any = None
    name: str | None = None
    version: int | None = None
    doc: str | None = None
    parameters: tuple[tuple[str, str], ...] = ()
    fields: tuple[Field, ...] = ()
    key_schema: Schema | None = None
    value_schema: Schema | None = None

    def __hash__(self) -> int:
        return hash((self.type, self.is_optional, self.name, self.version, self.fields))

    def field(self, name: str) -> Field | None:
        """Return a field by its name."""
        return next((each for each in self.fields if each.name == name), None)

    @property
    def parameter_map(self) -> dict[str, str]:
        """The parameters by name."""
        return dict(self.parameters)

    def optional(self) -> Schema:
        """Return the same schema for values that may be None."""
        return replace(self, is_optional=True)

    def with_default(self, value: Any) -> Schema:
        """Return the same schema with a default.

        Raises:
            DataError: the value does not match the schema.
        """
        validate(self, value)
        return replace(self, default=value)


class SchemaAndValue(NamedTuple):
    """A value and its schema; both may be None."""

    schema: Schema | None
    value: Any


NULL = SchemaAndValue(None, None)


def struct_schema(fields: Iterable[tuple[str, Schema]], **attributes: Any) -> Schema:
    """Make the schema of a struct from names and schemas of its fields.

    Raises:
        SchemaBuilderError: two fields have the same name, or a name is empty.
    """
    listed: list[Field] = []
    seen: set[str] = set()
    for index, (name, schema) in enumerate(fields):
        if not name:
            raise SchemaBuilderError("fieldName cannot be null.")
        if name in seen:
            raise SchemaBuilderError(
                f"Cannot create field because of field name duplication {name}"
            )
        seen.add(name)
        listed.append(Field(name, index, schema))
    return Schema(Type.STRUCT, fields=tuple(listed), **attributes)


def array_schema(items: Schema, **attributes: Any) -> Schema:
    """Make the schema of a list."""
    return Schema(Type.ARRAY, value_schema=items, **attributes)


def map_schema(keys: Schema, values: Schema, **attributes: Any) -> Schema:
    """Make the schema of a map."""
    return Schema(Type.MAP, key_schema=keys, value_schema=values, **attributes)


INT8, INT16, INT32, INT64 = (Schema(each) for each in INTEGER_BITS)
FLOAT32, FLOAT64 = Schema(Type.FLOAT32), Schema(Type.FLOAT64)
BOOLEAN, STRING, BYTES = Schema(Type.BOOLEAN), Schema(Type.STRING), Schema(Type.BYTES)
OPTIONAL_STRING, OPTIONAL_INT64 = STRING.optional(), INT64.optional()
OPTIONAL_BOOLEAN, OPTIONAL_FLOAT64 = BOOLEAN.optional(), FLOAT64.optional()
OPTIONAL_BYTES = BYTES.optional()

# -- logical types ----------------------------------------------------------------------------

DECIMAL_NAME = "org.apache.kafka.connect.data.Decimal"
DATE_NAME = "org.apache.kafka.connect.data.Date"
TIME_NAME = "org.apache.kafka.connect.data.Time"
TIMESTAMP_NAME = "org.apache.kafka.connect.data.Timestamp"
SCALE = "scale"

DATE = Schema(Type.INT32, name=DATE_NAME, version=1)
TIME = Schema(Type.INT32, name=TIME_NAME, version=1)
TIMESTAMP = Schema(Type.INT64, name=TIMESTAMP_NAME, version=1)

UTC = datetime.UTC
_EPOCH_DAY = datetime.date(1970, 1, 1)
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=UTC)
_MS = datetime.timedelta(milliseconds=1)
_DAY_MS = 86_400_000


def decimal_schema(scale: int, **attributes: Any) -> Schema:
    """Make the schema of decimals with a fixed number of digits after the point."""
    return Schema(
        Type.BYTES,
        name=DECIMAL_NAME,
        version=1,
        parameters=((SCALE, str(scale)),),
        **attributes,
    )


def scale_of(schema: Schema) -> int:
    """Return the scale of a schema of decimals.

    Raises:
        DataError: it has none.
    """
    text = schema.parameter_map.get(SCALE)
    if text is None:
        raise DataError("Invalid Decimal schema: scale parameter not found.")
    try:
        return int(text)
    except ValueError:
        raise DataError("Invalid scale parameter found in Decimal schema: ") from None


def decimal_bytes(schema: Schema, value: Decimal) -> bytes:
    """Return the unscaled value as the fewest big-endian bytes.

    Raises:
        DataError: the value has another scale.
    """
    scale = scale_of(schema)
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int) or -exponent != scale:
        raise DataError(
            f"Decimal value has mismatching scale for given Decimal schema. Schema has scale {scale}, "
            f"value has scale {-exponent if isinstance(exponent, int) else exponent}."
        )
    unscaled = int("".join(map(str, digits)) or "0") * (-1 if sign else 1)
    bits = (unscaled + 1 if unscaled < 0 else unscaled).bit_length()
    return unscaled.to_bytes(bits // 8 + 1, "big", signed=True)


def decimal_of(schema: Schema, data: bytes) -> Decimal:
    """The inverse of `decimal_bytes`."""
    unscaled = int.from_bytes(data, "big", signed=True)
    sign, digits, _ = Decimal(unscaled).as_tuple()
    return Decimal((sign, digits, -scale_of(schema)))


def date_days(value: datetime.date) -> int:
    """Return the days since 1970."""
    return (value - _EPOCH_DAY).days


def days_date(days: int) -> datetime.date:
    """The inverse of `date_days`."""
    try:
        return _EPOCH_DAY + datetime.timedelta(days=days)
    except OverflowError:
        raise DataError(f"day {days} is not in the years 1 to 9999") from None


def time_ms(value: datetime.time) -> int:
    """Return the milliseconds since midnight."""
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    return seconds * 1000 + value.microsecond // 1000


def ms_time(ms: int) -> datetime.time:
    """The inverse of `time_ms`.

    Raises:
        DataError: the number is not in one day.
    """
    if not 0 <= ms <= _DAY_MS:
        raise DataError(
            "Time values must use number of milliseconds greater than 0 and less than 86400000"
        )
    return (_EPOCH + ms % _DAY_MS * _MS).time()


def timestamp_ms(value: datetime.datetime) -> int:
    """Return the milliseconds since 1970. A time without a zone is in UTC."""
    if value.tzinfo is None:
        value = value.replace(tzinfo=UTC)
    return (value - _EPOCH) // _MS


def ms_timestamp(ms: int) -> datetime.datetime:
    """The inverse of `timestamp_ms`."""
    try:
        return _EPOCH + ms * _MS
    except OverflowError:
        raise DataError(f"time {ms} ms is not in the years 1 to 9999") from None


def _is_time(value: Any) -> bool:
    return isinstance(value, datetime.time)


def _is_date(value: Any) -> bool:
    return isinstance(value, datetime.date) and not isinstance(value, datetime.datetime)


_LOGICAL: dict[str, Callable[[Any], bool]] = {
    DECIMAL_NAME: lambda value: isinstance(value, Decimal),
    DATE_NAME: _is_date,
    TIME_NAME: _is_time,
    TIMESTAMP_NAME: lambda value: isinstance(value, datetime.datetime),
}

# -- values -----------------------------------------------------------------------------------


class Struct:
    """A record with the fields of its schema. `struct["name"]` gets and sets a field."""

    __slots__ = ("_values", "schema")

    def __init__(self, schema: Schema, values: Mapping[str, Any] | None = None) -> None:
        """Make a struct; fields without a value have their default, or None.

        Raises:
            DataError: the schema is not that of a struct, or a value does not match.
        """
        if schema.type != Type.STRUCT:
            raise DataError(f"Not a struct schema: {schema_text(schema)}")
        self.schema = schema
        self._values: list[Any] = [None] * len(schema.fields)
        for name, value in (values or {}).items():
            self[name] = value

    def _field(self, name: str) -> Field:
        found = self.schema.field(name)
        if found is None:
            raise DataError(f"{name} is not a valid field name")
        return found

    def __getitem__(self, name: str) -> Any:
        field = self._field(name)
        value = self._values[field.index]
        return field.schema.default if value is None else value

    def __setitem__(self, name: str, value: Any) -> None:
        field = self._field(name)
        validate(field.schema, value, field.name)
        self._values[field.index] = value

    def get(self, name: str) -> Any:
        """Return a field or its default; None if there is no such field."""
        return self[name] if self.schema.field(name) is not None else None

    def without_default(self, name: str) -> Any:
        """Return a field; None if it was not set."""
        return self._values[self._field(name).index]

    def items(self) -> Iterator[tuple[Field, Any]]:
        """Yield fields and their values, without defaults."""
        return zip(self.schema.fields, self._values, strict=True)

    def validate(self) -> None:
        """Check all fields.

        Raises:
            DataError: a value is missing or does not match.
        """
        for field, value in self.items():
            if value is None and (field.schema.is_optional or field.schema.default is not None):
                continue
            validate(field.schema, value, field.name)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Struct)
            and self.schema == other.schema
            and self._values == other._values
        )

    def __hash__(self) -> int:
        return hash(self.schema)

    def __repr__(self) -> str:
        shown = ",".join(f"{f.name}={value}" for f, value in self.items() if value is not None)
        return f"Struct{{{shown}}}"


_CLASSES: dict[Type, tuple[type, ...]] = {
    **dict.fromkeys(INTEGER_BITS, (int,)),
    Type.FLOAT32: (float,),
    Type.FLOAT64: (float,),
    Type.BOOLEAN: (bool,),
    Type.STRING: (str,),
    Type.BYTES: (bytes, bytearray, memoryview),
    Type.ARRAY: (list, tuple),
    Type.MAP: (dict,),
    Type.STRUCT: (Struct,),
}


def validate(schema: Schema, value: Any, name: str | None = None) -> None:
    """Check a value.

    Raises:
        DataError: it does not match its schema.
    """
    where = "" if name is None else f' for field: "{name}"'
    if value is None:
        if not schema.is_optional and schema.default is None:
            raise DataError(
                f"Invalid value: null used for required field"
                f"{': ' if name is None else f': {chr(34)}{name}{chr(34)}'}, "
                f"schema type: {schema.type.name}"
            )
        return
    logical = _LOGICAL.get(schema.name or "")
    if logical is not None and logical(value):
        return
    if logical is not None or not _matches(schema, value):
        raise DataError(
            f"Invalid Python object for schema {schema_text(schema)} with type {schema.type.name}: "
            f"{type(value).__name__}{where}"
        )
    if schema.type == Type.STRUCT:
        if value.schema is not schema and value.schema != schema:
            raise DataError(f"Struct schemas do not match{where}.")
        value.validate()
    elif schema.type == Type.ARRAY and schema.value_schema is not None:
        for each in value:
            validate(schema.value_schema, each, name)
    elif schema.type == Type.MAP and schema.key_schema and schema.value_schema:
        for key, each in value.items():
            validate(schema.key_schema, key, name)
            validate(schema.value_schema, each, name)


def _matches(schema: Schema, value: Any) -> bool:
    accepted: Any = _CLASSES[schema.type]
    if not isinstance(value, accepted):
        return False
    bits = INTEGER_BITS.get(schema.type)
    if bits is not None:
        limit = 1 << (bits - 1)
        return not isinstance(value, bool) and -limit <= value < limit
    return True


def schema_text(schema: Schema) -> str:
    """Return a schema as Java shows it."""
    kind = schema.type.name
    return f"Schema{{{schema.name}:{kind}}}" if schema.name else f"Schema{{{kind}}}"


def type_of(value: Any) -> Type | None:
    """Return the type of a value without a schema; None if it has no type."""
    if isinstance(value, bool):
        return Type.BOOLEAN
    if isinstance(value, int):
        return Type.INT64
    if isinstance(value, float):
        return Type.FLOAT64
    found = [t for t, classes in _CLASSES.items() if isinstance(value, classes)]
    return found[0] if found else None
