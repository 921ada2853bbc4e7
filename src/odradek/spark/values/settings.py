"""The options of typed keys and values (see `docs/spark.md`, "Typed values")."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from odradek.client.serializers.settings import OptionNames, RegistrySettings, parse_urls
from odradek.spark.values.given import Given

JSON, AVRO, PROTOBUF = "json", "avro", "protobuf"
Format = Literal["json", "avro", "protobuf"]
FORMATS: dict[str, Format] = {"json": "json", "avro": "avro", "protobuf": "protobuf"}
NAMES: dict[str, str] = {"json": "JSON", "avro": "Avro", "protobuf": "Protobuf"}
"""The names of the formats in texts."""

Column = Literal["key", "value"]
COLUMNS: tuple[Column, ...] = ("key", "value")

PROTOBUF_OPTIONS = (
    "emit.default.values",
    "enums.as.ints",
    "upcast.unsigned.ints",
    "unwrap.primitive.wrapper.types",
)
"""The names of the fields of `ProtobufOptions`, in their order."""
TYPED_OPTIONS = (
    "keyFormat",
    "keySchema",
    "keyMessage",
    "keySubject",
    "valueFormat",
    "valueSchema",
    "valueMessage",
    "valueSubject",
    *PROTOBUF_OPTIONS,
    "schemaRegistryUrl",
    "schemaRegistryUser",
    "schemaRegistryPassword",
)
TIMESTAMP_NUMBERS = "timestampNumbers"
"""The option with the unit of times that are numbers."""
MICROSECONDS_IN = {"seconds": 1_000_000, "milliseconds": 1000, "microseconds": 1}
"""The units of such times. Spark's `from_json` has seconds."""
WRITE_ONLY = ("registerSchemas",)
_OPTION_NAMES = OptionNames(
    "schemaRegistryUrl", "schemaRegistryUser and schemaRegistryPassword", "registerSchemas=false"
)


@dataclass(frozen=True, slots=True)
class ProtobufOptions:
    """Options of `from_protobuf` in Spark, which have the same names there."""

    emits_defaults: bool = False
    enums_as_numbers: bool = False
    widens_unsigned: bool = False
    unwraps: bool = False


@dataclass(frozen=True, slots=True)
class Typed:
    """The settings of a typed column."""

    column: Column
    format: Format
    schema: str | None = None
    """The text of a schema, or the path of a file with one. None: the registry has it."""
    registry: RegistrySettings | None = None
    subject: str | None = None
    """The registry's name of the versions of a schema."""
    registers: bool = True
    """Whether schemas of written columns are registered."""
    message: str | None = None
    """The message of a schema of Protobuf. None: the only one."""
    protobuf: ProtobufOptions = ProtobufOptions()
    number_us: int = MICROSECONDS_IN["seconds"]
    """The unit of times that are numbers in JSON, in microseconds."""

    def option(self, name: str) -> str:
        """Return the name of an option of this column: `valueSchema`, `keySchema`."""
        return f"{self.column}{name}"

    @property
    def format_name(self) -> str:
        """The name of the format in texts."""
        return NAMES[self.format]


def parse_typed(
    given: Given, topics: Sequence[str], timeout_ms: int, *, writing: bool = False
) -> dict[Column, Typed]:
    """Return the settings of the typed columns. `topics` are those that the options name.

    Raises:
        ValueError: an option is malformed, missing, or contradicts another one.
    """
    registry = _registry(given, timeout_ms)
    found: dict[Column, Typed] = {}
    for column in COLUMNS:
        chosen = given.choice(f"{column}Format", FORMATS, None)
        _check_names(given, column, chosen, registry)
        if chosen is None:
            continue
        subject = given.text(f"{column}Subject") or None
        if subject is None and len(topics) == 1:
            subject = f"{topics[0]}-{column}"
        in_registry = registry if chosen != JSON else None
        found[column] = Typed(
            column,
            chosen,
            schema=given.text(f"{column}Schema").strip() or None,
            registry=in_registry,
            subject=None if in_registry is None else subject,
            registers=given.boolean("registerSchemas", True),
            message=given.text(f"{column}Message") or None,
            protobuf=_protobuf(given),
            number_us=given.choice(TIMESTAMP_NUMBERS, MICROSECONDS_IN, MICROSECONDS_IN["seconds"]),
        )
    if registry is not None and not any(each.registry for each in found.values()):
        raise ValueError("schemaRegistryUrl is for valueFormat or keyFormat avro or protobuf")
    for name in PROTOBUF_OPTIONS:
        if given.has(name) and not any(each.format == PROTOBUF for each in found.values()):
            raise ValueError(f"{name} is for valueFormat or keyFormat protobuf")
    if given.has(TIMESTAMP_NUMBERS) and not any(each.format == JSON for each in found.values()):
        raise ValueError(f"{TIMESTAMP_NUMBERS} is for valueFormat or keyFormat json")
    for each in found.values():
        _check(each, writing=writing)
    return found


def _check_names(
    given: Given, column: Column, chosen: Format | None, registry: RegistrySettings | None
) -> None:
    """Check that a column has only options of its format."""
    for name in ("Schema", "Message", "Subject"):
        if chosen is None and given.has(f"{column}{name}"):
            raise ValueError(f"{column}{name} needs {column}Format: {', '.join(FORMATS)}")
    if given.has(f"{column}Message") and chosen != PROTOBUF:
        raise ValueError(f"{column}Message is for {column}Format=protobuf")
    if given.has(f"{column}Subject") and (registry is None or chosen == JSON):
        raise ValueError(
            f"{column}Subject needs schemaRegistryUrl, and {column}Format avro or protobuf"
        )


def _protobuf(given: Given) -> ProtobufOptions:
    return ProtobufOptions(*(given.boolean(name, False) for name in PROTOBUF_OPTIONS))


def _check(typed: Typed, *, writing: bool) -> None:
    column = typed.column
    if typed.registry is not None:
        if typed.subject is None and (writing or typed.schema is None):
            raise ValueError(
                f"give {column}Subject, the subject of the {column}s' schema in the registry: it "
                f"follows from the topic (TOPIC-{column}) only if the options name one topic"
            )
        return
    if typed.schema is None and not (writing and typed.format == JSON):
        registry = "" if typed.format == JSON else ", or schemaRegistryUrl"
        raise ValueError(
            f"{column}Schema is missing: typed {column}s need both {column}Format={typed.format} "
            f"and {column}Schema{registry}"
        )
    if typed.schema is not None and writing and typed.format == JSON:
        raise ValueError(f"{column}Schema has no effect on the writing of JSON: omit it")


def _registry(given: Given, timeout_ms: int) -> RegistrySettings | None:
    text = given.text("schemaRegistryUrl")
    user, password = given.text("schemaRegistryUser"), given.text("schemaRegistryPassword")
    if not text:
        for name in ("schemaRegistryUser", "schemaRegistryPassword", "registerSchemas"):
            if given.has(name):
                raise ValueError(f"{name} needs schemaRegistryUrl")
        return None
    urls = parse_urls(text, "schemaRegistryUrl", _OPTION_NAMES.login)
    if bool(user) != bool(password):
        raise ValueError("give both schemaRegistryUser and schemaRegistryPassword, or none of them")
    return RegistrySettings(urls, user, password, timeout_ms, names=_OPTION_NAMES)
