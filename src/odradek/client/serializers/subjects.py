"""The names of the subjects under which schemas are registered: Confluent's strategies."""

from __future__ import annotations

from collections.abc import Callable

from odradek.client.errors import SerializationError

Strategy = Callable[[str, bool, str | None], str]
"""Returns a subject by a topic, whether it is of the key, and the full name of the record."""


def topic_name(topic: str, is_key: bool, record: str | None) -> str:
    """TopicNameStrategy: all records of a topic have one schema."""
    del record
    return f"{topic}-{'key' if is_key else 'value'}"


def record_name(topic: str, is_key: bool, record: str | None) -> str:
    """RecordNameStrategy: records of one name have one schema, in all topics."""
    del topic, is_key
    return _named(record)


def topic_record_name(topic: str, is_key: bool, record: str | None) -> str:
    """TopicRecordNameStrategy: records of one name have one schema in a topic."""
    del is_key
    return f"{topic}-{_named(record)}"


def _named(record: str | None) -> str:
    if not record:
        raise SerializationError(
            "the schema has no name, from which the subject would be made",
            "Use the strategy `topic_name`, or a schema of a record (in JSON Schema, with a title).",
        )
    return record
