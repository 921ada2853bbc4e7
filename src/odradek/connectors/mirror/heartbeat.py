"""Writes a record at the target at an interval, so that one can see that records flow."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import ClassVar

from odradek.connectors.mirror import config as definitions
from odradek.connectors.mirror.clients import make_cluster
from odradek.connectors.mirror.config import MirrorConfig
from odradek.connectors.mirror.formats import Heartbeat, source_offset
from odradek.connectors.mirror.internal_topics import create_compacted_topic
from odradek.connectors.mirror.offsets import check_only_zero, check_text
from odradek.connectors.mirror.scheduler import Scheduler
from odradek.core.connect.api import Config, Offset, Partition, SourceConnector, SourceTask
from odradek.core.connect.config_def import ConfigDef, ConfigValue
from odradek.core.connect.data import BYTES
from odradek.core.connect.records import SourceRecord


class MirrorHeartbeatTask(SourceTask):
    """Makes heartbeats."""

    def __init__(self) -> None:
        self._stopping = threading.Event()
        self._config: MirrorConfig
        self._interval_s = 0.0

    def start(self, config: Config) -> None:
        """See `Task`."""
        self._config = MirrorConfig(definitions.HEARTBEAT, config)
        self._interval_s = self._config.interval_s("emit.heartbeats") or 0.0

    def poll(self) -> list[SourceRecord] | None:
        """See `SourceTask`."""
        if self._stopping.wait(self._interval_s):
            return None
        now_ms = round(time.time() * 1000)
        beat = Heartbeat(self._config.source, self._config.target, now_ms)
        return [
            SourceRecord(
                topic=self._config.policy.heartbeats_topic,
                partition=0,
                key_schema=BYTES,
                key=beat.key(),
                value_schema=BYTES,
                value=beat.value(),
                timestamp=now_ms,
                source_partition=beat.source_partition(),
                source_offset=source_offset(0),
            )
        ]

    def stop(self) -> None:
        """See `Task`."""
        self._stopping.set()


class MirrorHeartbeatConnector(SourceConnector):
    """See the module."""

    java_name: ClassVar[str] = "org.apache.kafka.connect.mirror.MirrorHeartbeatConnector"
    task_class = MirrorHeartbeatTask

    def __init__(self) -> None:
        self._config: MirrorConfig
        self._scheduler: Scheduler | None = None

    @classmethod
    def config(cls) -> ConfigDef:
        """See `Connector`."""
        return definitions.HEARTBEAT

    def validate(self, config: Config) -> dict[str, ConfigValue]:
        """See `Connector`."""
        return definitions.validate(definitions.HEARTBEAT, config)

    def start(self, config: Config) -> None:
        """See `Connector`."""
        self._config = MirrorConfig(definitions.HEARTBEAT, config)
        self._scheduler = Scheduler(self._config.label, self._config.timeout_s)
        self._scheduler.execute("making the topic of heartbeats", self._make_topic)

    def _make_topic(self) -> None:
        settings = self._config.client("target", "admin", "heartbeats-target-admin")
        with make_cluster(settings) as cluster:
            factor = self._config.parsed["heartbeats.topic.replication.factor"]
            create_compacted_topic(cluster, self._config.policy.heartbeats_topic, factor)

    def task_configs(self, max_tasks: int) -> Sequence[Config]:
        """See `Connector`."""
        if self._config.interval_s("emit.heartbeats") is None:
            return []
        return [self._config.given]

    def stop(self) -> None:
        """See `Connector`."""
        if self._scheduler is not None:
            self._scheduler.close()

    def alter_offsets(
        self, config: Config, offsets: Sequence[tuple[Partition, Offset | None]]
    ) -> bool:
        """See `SourceConnector`."""
        for partition, offset in offsets:
            if offset is not None:
                check_text(partition, "sourceClusterAlias")
                check_text(partition, "targetClusterAlias")
                check_only_zero(partition, offset)
        return True
