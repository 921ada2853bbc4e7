"""JsonConverter and the transforms make the same bytes as Java's, and refuse the same records."""

from __future__ import annotations

import base64
import json
import random
import struct
from typing import Any, NamedTuple

import pytest
from compat.lab.toolchain import Missing
from tests.oracle.jvm import connect
from tests.support.run_seed import seeds

from odradek.connect.registry import installed_plugins
from odradek.core.connect.data import NULL
from odradek.core.connect.errors import ConnectError
from odradek.core.connect.headers import SimpleHeaderConverter
from odradek.core.connect.json_converter import JsonConverter
from odradek.core.connect.records import SinkRecord

pytestmark = [pytest.mark.cluster, pytest.mark.java]

CASES = 4_000
PLUGINS = installed_plugins()
NAMES = ["a", "b", "c.d", "ä", "op"]
TEXTS = [
    "",
    "x",
    "12",
    "-7",
    "3.5",
    "true",
    "2024-02-29T12:30:45.123Z",
    "2024-02-29",
    "1e3",
    "ü\n\u0001",
]
INTS = [0, 1, -1, 127, 128, -129, 40_000, 2**31 - 1, 2**31, -(2**63), 2**63 - 1, 1_709_210_000_000]
FLOATS = [0.0, -0.0, 1.5, 1e-4, 123456789.25, 1e21, 3.4e38, 0.1, 9007199254740993.0, 1e-7]
SHORT_FLOATS = [0.0, 1.5, 1e-4, 0.1, 3.4e38]
"""Of 32 bits: Java 17 writes some others with more digits than it needs, and later versions do not."""
LOGICAL = "org.apache.kafka.connect.data."


class Case(NamedTuple):
    transform: str
    config: dict[str, str]
    has_schema: bool
    value: str
    topic: str
    timestamp: int


def plain(r: random.Random, depth: int = 0) -> Any:
    kind = r.randrange(8 if depth < 2 else 6)
    if kind == 0:
        return None
    if kind == 6:
        return [plain(r, depth + 1) for _ in range(r.randrange(3))]
    if kind == 7:
        return {r.choice(NAMES): plain(r, depth + 1) for _ in range(r.randrange(3))}
    return r.choice([r.choice(TEXTS), r.choice(INTS), r.choice(FLOATS), r.random() < 0.5])


def typed(r: random.Random, depth: int = 0) -> tuple[dict[str, Any], Any]:
    """Return a schema and a value, which rarely does not match."""
    kinds = ["array", "map", "struct", "struct"] if depth < 2 and r.random() < 0.25 else [""]
    kind = "struct" if depth == 0 and r.random() < 0.8 else r.choice(kinds)
    schema, value = nested(r, depth, kind) if kind else single(r)
    schema["optional"] = r.random() < 0.4
    if r.random() < 0.1:
        schema["doc"] = "what it is"
    if schema["optional"] and r.random() < 0.3:
        return schema, None
    return schema, "wrong" if r.random() < 0.01 else value


def single(r: random.Random) -> tuple[dict[str, Any], Any]:
    bits = r.choice([8, 16, 32, 64])
    integers = [each for each in INTS if -(2 ** (bits - 1)) <= each < 2 ** (bits - 1)]
    data = r.choice([b"\0", b"\x7f", b"\xff", b"\0\x80"])
    encoded = base64.b64encode(data).decode()
    scale = {"parameters": {"scale": "2"}}
    times = [0, 1, -1, 1_709_210_000_123, 86_400_000]
    choices: list[tuple[dict[str, Any], Any]] = [
        ({"type": f"int{bits}"}, r.choice(integers)),
        ({"type": "float"}, r.choice(SHORT_FLOATS)),
        ({"type": "double"}, r.choice(FLOATS)),
        ({"type": "boolean"}, r.random() < 0.5),
        ({"type": "string"}, r.choice(TEXTS)),
        ({"type": "bytes"}, encoded),
        ({"type": "int32", "name": LOGICAL + "Date", "version": 1}, r.choice([0, 19_782, -400])),
        ({"type": "int32", "name": LOGICAL + "Time", "version": 1}, r.choice([0, 1, 86_399_999])),
        ({"type": "int64", "name": LOGICAL + "Timestamp", "version": 1}, r.choice(times)),
        ({"type": "bytes", "name": LOGICAL + "Decimal", "version": 1, **scale}, encoded),
    ]
    return r.choice(choices)


def nested(r: random.Random, depth: int, kind: str) -> tuple[dict[str, Any], Any]:
    inner, found = typed(r, depth + 1)
    if kind == "array":
        return {"type": "array", "items": inner}, [found] * r.randrange(3)
    if kind == "map":
        keys = {"type": "string", "optional": False}
        return {"type": "map", "keys": keys, "values": inner}, {"k": found}
    fields: list[dict[str, Any]] = []
    value: dict[str, Any] = {}
    for name in r.sample(NAMES, r.randrange(1, 4)):
        field, value[name] = typed(r, depth + 1)
        fields.append({**field, "field": name})
    schema: dict[str, Any] = {"type": "struct", "fields": fields}
    if r.random() < 0.5:
        schema |= {"name": "some.Name", "version": r.randrange(3)}
    return schema, value


def configs(r: random.Random) -> tuple[str, dict[str, str]]:
    name, other = r.choice(NAMES), r.choice(NAMES)
    kind = r.choice(["int8", "int16", "int32", "int64", "float32", "float64", "boolean", "string"])
    part = "$Value"
    return r.choice(
        [
            ("", {}),
            ("Cast" + part, {"spec": f"{name}:{kind}"}),
            ("Cast" + part, {"spec": kind}),
            ("Cast" + part, {"spec": f"{name}:{kind}", "replace.null.with.default": "false"}),
            ("ExtractField" + part, {"field": name}),
            ("ExtractField" + part, {"field": f"{name}.{other}", "field.syntax.version": "V2"}),
            ("Flatten" + part, {"delimiter": r.choice([".", "_"])}),
            ("HoistField" + part, {"field": name}),
            ("InsertField" + part, {"topic.field": "t!", "offset.field": "o"}),
            ("InsertField" + part, {"partition.field": name, "timestamp.field": "ts"}),
            ("InsertField" + part, {"static.field": "s?", "static.value": "1"}),
            ("MaskField" + part, {"fields": name}),
            (
                "MaskField" + part,
                {"fields": f"{name},{other}", "replacement": r.choice(["9", "x"])},
            ),
            ("ReplaceField" + part, {"exclude": name}),
            ("ReplaceField" + part, {"include": f"{name},{other}", "renames": f"{name}:new"}),
            ("SetSchemaMetadata" + part, {"schema.name": "n", "schema.version": "7"}),
            ("ValueToKey", {"fields": name}),
            ("HeaderFrom" + part, {"fields": name, "headers": "h", "operation": "move"}),
            ("HeaderFrom" + part, {"fields": name, "headers": "h", "operation": "copy"}),
            ("InsertHeader", {"header": "h", "value.literal": r.choice(TEXTS) or "[1,2.5]"}),
            ("DropHeaders", {"headers": "h"}),
            ("Filter", {}),
            ("RegexRouter", {"regex": "(t)(.*)", "replacement": "$2-$1"}),
            ("TimestampRouter", {"timestamp.format": "yyyy.MM.dd'T'HH:mm:ss.SSS EEE D"}),
            (
                "TimestampConverter" + part,
                {
                    "field": r.choice(["", name]),
                    "target.type": r.choice(["string", "unix", "Date", "Time", "Timestamp"]),
                    "format": "yyyy-MM-dd'T'HH:mm:ss.SSSX",
                    "unix.precision": r.choice(["seconds", "milliseconds", "microseconds"]),
                },
            ),
        ]
    )


def case(r: random.Random) -> Case:
    transform, config = configs(r)
    has_schema = r.random() < 0.7
    if "float32" in config.get("spec", "") or transform.startswith("TimestampConverter"):
        has_schema = True  # without one, numbers of ours have 64 bits, and years are below 10 000
    if has_schema:
        schema, value = typed(r)
        text = json.dumps({"schema": schema, "payload": value}, ensure_ascii=False)
    else:
        top = {each: plain(r, 1) for each in r.sample(NAMES, 2)}
        text = json.dumps(top if r.random() < 0.8 else plain(r), ensure_ascii=False)
    if r.random() < 0.01:
        text = text[:-1]
    return Case(transform, config, has_schema, text, "topic", r.choice([0, 1_709_210_000_123]))


def line(each: Case) -> str:
    words = [
        each.transform,
        json.dumps(each.config),
        "true" if each.has_schema else "false",
        each.value,
        each.topic,
        str(each.timestamp),
    ]
    return "\t".join(base64.b64encode(word.encode()).decode() for word in words)


def ours(each: Case) -> str:
    converter = JsonConverter()
    converter.configure({"schemas.enable": str(each.has_schema).lower()}, is_key=False)
    try:
        found = converter.to_connect("t", each.value.encode()) if each.value else NULL
        record: Any = SinkRecord(
            topic=each.topic,
            partition=3,
            value_schema=found.schema,
            value=found.value,
            timestamp=each.timestamp,
            offset=42,
        )
        if each.transform:
            name = "org.apache.kafka.connect.transforms." + each.transform
            transform = PLUGINS.find(name).made()
            transform.configure(each.config)
            record = transform.apply(record)
        if record is None:
            return "-"
        parts = [
            record.topic.encode(),
            converter.from_connect("t", record.value_schema, record.value),
            converter.from_connect("t", record.key_schema, record.key),
        ]
        headers = SimpleHeaderConverter()
        for header in record.headers:
            parts.append(header.key.encode())
            parts.append(headers.from_connect("t", header.schema, header.value))
    except ConnectError as error:
        return f"!{error}"
    first, *others = parts
    shown = [base64.b64encode(first or b"").decode()]
    shown += ["" if p is None else "." + base64.b64encode(p).decode() for p in others]
    return "=." + "\t".join(shown)


def readable(answer: str) -> Any:
    if not answer.startswith("="):
        return answer[:1]
    words = [base64.b64decode(word.removeprefix(".")) for word in answer[1:].split("\t")]
    return [_in_any_order(word) for word in words]


def _number(text: str) -> bytes:
    """Return a number of 32 bits; see `SHORT_FLOATS`."""
    try:
        return struct.pack(">f", float(text))
    except OverflowError:
        return text.encode()


def _in_any_order(word: bytes) -> Any:
    """Java's maps without schema have no order, so that of ours need not be the same."""
    try:
        found = json.loads(word, parse_float=_number, parse_int=str)
    except ValueError:
        return word
    return found if isinstance(found, dict | list) else word


@pytest.mark.parametrize("seed", seeds(1))
def test_records_are_changed_as_by_java(seed: int) -> None:
    numbers = random.Random(seed)
    cases = [case(numbers) for _ in range(CASES)]
    try:
        theirs = connect(map(line, cases))
    except Missing as missing:
        pytest.skip(str(missing))
    assert len(theirs) == len(cases)
    different = [
        (each, java, own)
        for each, java in zip(cases, theirs, strict=True)
        if readable(own := ours(each)) != readable(java) and "in the years 1 to" not in own
    ]
    shown = [
        f"{each.transform} {each.config} {each.value} {each.timestamp}\n  java {_shown(java)}\n  ours {_shown(own)}"
        for each, java, own in different
    ]
    assert not different, f"{len(different)} differ\n" + "\n".join(shown[:8])
    changed = sum(1 for each in theirs if each.startswith("="))
    assert changed > CASES // 3, "most records are not refused"


def _shown(answer: str) -> str:
    found = readable(answer)
    return answer if isinstance(found, str) else str(found)
