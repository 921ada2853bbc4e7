"""The converters and transforms of a task: from records to bytes, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from odradek.connect.error_handler import ErrorHandler
from odradek.core.connect.converter import Converter
from odradek.core.connect.errors import ConnectError
from odradek.core.connect.plugins import PluginKind, Plugins, UnknownPluginError
from odradek.core.connect.records import Header, Headers, SinkRecord, SourceRecord
from odradek.core.connect.retry import Stage
from odradek.core.connect.task_messages import Encoded
from odradek.core.connect.transform import Chain, chain_of, with_prefix
from odradek.core.connect.worker_config import WorkerConfig
from odradek.model.topic_partition import TopicPartition
from odradek.records.record import Record


class Pipeline:
    """The converters and transforms of one task."""

    def __init__(self, worker: WorkerConfig, config: Mapping[str, str], plugins: Plugins) -> None:
        """Make and configure them.

        Raises:
            ConnectError: a class is unknown, or a configuration is invalid.
        """
        self._key = _converter(worker, config, plugins, "key.converter")
        self._value = _converter(worker, config, plugins, "value.converter")
        self._header = _converter(worker, config, plugins, "header.converter")
        self._chain: Chain = chain_of(config, plugins)

    def encode(self, record: SourceRecord, errors: ErrorHandler) -> Encoded | None:
        """Return the bytes of a record of a source; None if a transform drops it.

        Raises:
            Skipped: it cannot be converted, and errors are tolerated.
            ConnectError: it cannot be converted.
        """
        found: SourceRecord | None = record
        if self._chain:
            found = errors.run(Stage.TRANSFORMATION, lambda: self._chain.apply(record), record)
        if found is None:
            return None
        kept = found
        topic = kept.topic
        headers = [
            (
                each.key,
                errors.run(
                    Stage.HEADER_CONVERTER,
                    lambda each=each: self._header.from_connect_header(topic, *each),  # type: ignore[misc]
                    record,
                ),
            )
            for each in kept.headers
        ]
        key = errors.run(
            Stage.KEY_CONVERTER,
            lambda: self._key.from_connect(topic, kept.key_schema, kept.key),
            record,
        )
        value = errors.run(
            Stage.VALUE_CONVERTER,
            lambda: self._value.from_connect(topic, kept.value_schema, kept.value),
            record,
        )
        return Encoded(kept, key, value, headers)

    def decode(
        self, place: TopicPartition, record: Record, errors: ErrorHandler
    ) -> SinkRecord | None:
        """Return a record of a topic as data; None if a transform drops it.

        Raises:
            Skipped: it cannot be converted, and errors are tolerated.
            ConnectError: it cannot be converted.
        """
        topic = place.topic
        raw = (topic, place.partition, record)
        key = errors.run(Stage.KEY_CONVERTER, lambda: self._key.to_connect(topic, record.key), raw)
        value = errors.run(
            Stage.VALUE_CONVERTER, lambda: self._value.to_connect(topic, record.value), raw
        )
        headers = Headers(
            Header(
                name,
                *errors.run(
                    Stage.HEADER_CONVERTER,
                    lambda name=name, data=data: self._header.to_connect_header(topic, name, data),  # type: ignore[misc]
                    raw,
                ),
            )
            for name, data in record.headers
        )
        decoded = SinkRecord(
            topic=topic,
            partition=place.partition,
            key_schema=key.schema,
            key=key.value,
            value_schema=value.schema,
            value=value.value,
            timestamp=record.timestamp,
            headers=headers,
            offset=record.offset,
            original_topic=topic,
            original_partition=place.partition,
            original_offset=record.offset,
        )
        if not self._chain:
            return decoded
        return errors.run(Stage.TRANSFORMATION, lambda: self._chain.apply(decoded), raw)

    def close(self) -> None:
        """Free what they hold."""
        self._chain.close()
        for each in (self._key, self._value, self._header):
            each.close()


def _converter(
    worker: WorkerConfig, config: Mapping[str, str], plugins: Plugins, role: str
) -> Converter:
    """Make the converter of a role: the connector's, or else the worker's."""
    name = config.get(role)
    own: dict[str, Any] = with_prefix(config, role + ".")
    if not name:
        name, own = worker.text(role), dict(worker.with_prefix(role + "."))
    own.pop("plugin.version", None)
    kind = PluginKind.HEADER_CONVERTER if role == "header.converter" else PluginKind.CONVERTER
    try:
        made: Converter = plugins.find(name.strip(), kind).made()
    except UnknownPluginError:
        raise ConnectError(f"Class {name} could not be found.") from None
    made.configure(own, is_key=role == "key.converter")
    return made
