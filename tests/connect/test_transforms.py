"""Chains of transforms with predicates, and Debezium's envelopes. Java's transforms are in tests/oracle."""

from __future__ import annotations

import pytest

from odradek.connect.registry import installed_plugins
from odradek.core.connect.data import INT64, STRING, Struct, struct_schema
from odradek.core.connect.errors import ConfigError, ConnectError, DataError
from odradek.core.connect.records import Header, Headers, SinkRecord
from odradek.core.connect.simple_date import SimpleDate
from odradek.core.connect.transform import chain_of
from odradek.core.connect.transforms.debezium import ExtractNewRecordState

PLUGINS = installed_plugins()
PACKAGE = "org.apache.kafka.connect.transforms."


def test_a_predicate_decides_about_its_transform():
    chain = chain_of(
        {
            "transforms": "drop, name",
            "transforms.drop.type": PACKAGE + "Filter",
            "transforms.drop.predicate": "dead",
            "transforms.name.type": "RegexRouter",
            "transforms.name.regex": "(.*)-in",
            "transforms.name.replacement": "$1-out",
            "transforms.name.predicate": "marked",
            "transforms.name.negate": "true",
            "predicates": "dead,marked",
            "predicates.dead.type": PACKAGE + "predicates.RecordIsTombstone",
            "predicates.marked.type": "HasHeaderKey",
            "predicates.marked.name": "mark",
        },
        PLUGINS,
    )
    record = SinkRecord(topic="a-in", value="x")
    assert chain.apply(record) == record.with_changes(topic="a-out")
    marked = record.with_changes(headers=Headers([Header("mark", None, 1)]))
    assert chain.apply(marked) == marked
    assert chain.apply(SinkRecord(topic="a-in")) is None


def test_an_unknown_transform_is_named():
    with pytest.raises(ConnectError, match="Class nothing could not be found"):
        chain_of({"transforms": "a", "transforms.a.type": "nothing"}, PLUGINS)


ROW = struct_schema(
    [("id", INT64), ("name", STRING.optional())], name="p.s.t.Value", is_optional=True
)
SOURCE = struct_schema([("lsn", INT64)])
ENVELOPE = struct_schema(
    [("before", ROW), ("after", ROW), ("source", SOURCE), ("op", STRING)], name="p.s.t.Envelope"
)


def change(before: int | None, after: int | None, op: str) -> SinkRecord:
    rows = {
        name: None if number is None else Struct(ROW, {"id": number})
        for name, number in (("before", before), ("after", after))
    }
    value = Struct(ENVELOPE, {**rows, "source": Struct(SOURCE, {"lsn": 9}), "op": op})
    return SinkRecord(topic="p.s.t", value_schema=ENVELOPE, value=value)


@pytest.mark.parametrize(
    ("mode", "deleted", "tombstone"),
    [
        ("drop", None, False),
        ("tombstone", None, True),
        ("rewrite", "true", False),
        ("rewrite-with-tombstone", "true", True),
        ("delete-to-tombstone", "tombstone", False),
    ],
)
def test_deletions_become_what_the_mode_says(mode: str, deleted: str | None, tombstone: bool):
    transform = ExtractNewRecordState()
    transform.configure({"delete.tombstone.handling.mode": mode, "add.fields": "op,source.lsn:at"})
    created = transform.apply(change(None, 1, "c"))
    assert created is not None
    assert (created.value["id"], created.value["__op"], created.value["__at"]) == (1, "c", 9)
    found = transform.apply(change(1, None, "d"))
    if deleted is None:
        assert found is None
    elif deleted == "tombstone":
        assert found is not None
        assert found.value is None
    else:
        assert found is not None
        assert (found.value["id"], found.value["__deleted"]) == (1, "true")
    assert (transform.apply(SinkRecord(topic="p.s.t")) is not None) == tombstone
    other = SinkRecord(topic="p.s.t", value="no envelope")
    assert transform.apply(other) == other


def test_patterns_of_dates_read_what_they_write():
    for pattern in (
        "yyyy-MM-dd'T'HH:mm:ss.SSSX",
        "yyyyMMddHHmmssSSS",
        "EEE, dd MMM yyyy hh:mm a Z",
    ):
        found = SimpleDate(pattern)
        text = found.format(SimpleDate("yyyyMMddHHmm").parse("202402291535"))
        assert found.format(found.parse(text)) == text
    assert SimpleDate("yyyy''MM").format(SimpleDate("yyyyMM").parse("202411")) == "2024'11"
    with pytest.raises(DataError):
        SimpleDate("yyyy").parse("x")
    with pytest.raises(ConfigError):
        SimpleDate("yyyy-Q")
