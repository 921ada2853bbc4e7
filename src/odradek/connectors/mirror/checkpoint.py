"""Translates the offsets of groups into offsets of the copies (`MirrorCheckpointConnector`).

A task writes the translated offsets as checkpoints. With `sync.group.offsets.enabled` it commits them at
the target, too, for groups that have no members there, so that consumers can move to the target.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from typing import ClassVar

from odradek.client.admin.groups import Group, describe_groups, list_groups
from odradek.client.cluster import Cluster
from odradek.client.commits import commit_offsets, fetch_offsets
from odradek.client.consuming.to_ends import read_to_ends
from odradek.client.core.fetch_settings import READ_UNCOMMITTED
from odradek.client.errors import BrokerError, ClientError
from odradek.connectors.mirror import config as definitions
from odradek.connectors.mirror.checkpoints import Checkpoints, Offsets
from odradek.connectors.mirror.clients import make_cluster
from odradek.connectors.mirror.config import MirrorConfig, add_error
from odradek.connectors.mirror.filters import listed
from odradek.connectors.mirror.formats import Checkpoint, MalformedRecordError, source_offset
from odradek.connectors.mirror.internal_topics import create_compacted_topic
from odradek.connectors.mirror.offsets import check_only_zero, check_partition, check_text
from odradek.connectors.mirror.scheduler import Scheduler
from odradek.connectors.mirror.sync_reader import SyncReader
from odradek.connectors.mirror.topics import chunks
from odradek.core.connect.api import Config, Offset, Partition, SourceConnector, SourceTask
from odradek.core.connect.config_def import ConfigDef, ConfigValue
from odradek.core.connect.data import BYTES
from odradek.core.connect.errors import RetriableError
from odradek.core.connect.records import SourceRecord
from odradek.model.errors import ErrorCode
from odradek.model.topic_partition import TopicPartition

log = logging.getLogger(__name__)

_PAUSE_SECONDS = 1.0
_WITHOUT_MEMBERS = ("Empty", "Dead")
"""Old brokers call a group dead that does not exist."""


class MirrorCheckpointTask(SourceTask):
    """Makes the checkpoints of some groups."""

    def __init__(self) -> None:
        self._stopping = threading.Event()
        self._config: MirrorConfig
        self._groups: list[str] = []
        self._interval_s = 0.0
        self._checkpoints: Checkpoints
        self._is_ready = False
        self._reader: SyncReader | None = None
        self._scheduler: Scheduler | None = None
        self._source: Cluster | None = None
        self._target: Cluster | None = None

    def start(self, config: Config) -> None:
        """See `Task`."""
        found = MirrorConfig(definitions.CHECKPOINT, config)
        self._config = found
        self._groups = listed(config, definitions.TASK_GROUPS, ())
        self._interval_s = found.interval_s("emit.checkpoints") or 0.0
        self._checkpoints = Checkpoints(
            found.source, found.target, found.policy, found.filter("topic.filter.class")
        )
        self._source = make_cluster(found.client("source", "admin", "checkpoint-source-admin"))
        self._target = make_cluster(found.client("target", "admin", "checkpoint-target-admin"))
        self._scheduler = Scheduler(found.label, found.timeout_s)
        self._scheduler.execute_later(
            "reading the earlier checkpoints and offset syncs", self._load
        )
        log.info("%s makes checkpoints of %s groups", found.label, len(self._groups))

    def _load(self) -> None:
        assert self._scheduler is not None, "it runs in the scheduler"
        found = self._config
        has_earlier = self._load_checkpoints()
        place = "source" if found.syncs_are_at_source else "target"
        settings = found.client(place, "consumer", f"offset-syncs-{place}-consumer")
        self._reader = SyncReader(
            settings, found.offset_syncs_topic, keeps_earlier=has_earlier, stopping=self._stopping
        )
        while not self._stopping.is_set():
            try:
                self._reader.start()
                break
            except ClientError as error:
                log.warning("%s cannot be read yet: %s", found.offset_syncs_topic, error)
                self._stopping.wait(_PAUSE_SECONDS)
        self._is_ready = True
        every = found.interval_s("sync.group.offsets")
        self._scheduler.repeat(
            "setting the offsets of groups at the target", self._sync_target, every, at_once=False
        )

    def _load_checkpoints(self) -> bool:
        """Read the checkpoints. Return whether that was possible."""
        found = self._config
        settings = found.client("target", "consumer", "checkpoints-target-consumer")
        place = TopicPartition(found.checkpoints_topic, 0)
        groups = set(self._groups)
        try:
            with make_cluster(settings, "consumer") as cluster:
                for batch in read_to_ends(cluster, {place: 0}, READ_UNCOMMITTED):
                    for record in batch:
                        try:
                            checkpoint = Checkpoint.read(record.key, record.value)
                        except MalformedRecordError as error:
                            log.warning("the record %s of %s: %s", record.offset, place, error)
                            continue
                        if checkpoint.group in groups:
                            self._checkpoints.load([checkpoint])
        except ClientError as error:
            log.warning(
                "the earlier checkpoints in %s cannot be read, so offsets are translated only from "
                "what is copied from now on: %s",
                found.checkpoints_topic,
                error,
            )
            return False
        return True

    def poll(self) -> list[SourceRecord] | None:
        """See `SourceTask`."""
        if self._stopping.wait(self._interval_s or _PAUSE_SECONDS):
            return None
        if not self._is_ready:
            return None
        assert self._source is not None, "it is started"
        assert self._reader is not None, "it is ready"
        now_ms = round(time.time() * 1000)
        made: list[SourceRecord] = []
        for group in self._groups:
            if self._stopping.is_set():
                return None
            try:
                committed = fetch_offsets(self._source, group)
            except ClientError as error:
                log.error("the offsets of group %s at the source: %s", group, error)
                continue
            with self._reader.store as store:
                found = self._checkpoints.make(group, committed, store)
            made += (self._record(each, now_ms) for each in found)
        return made or None

    def _record(self, checkpoint: Checkpoint, now_ms: int) -> SourceRecord:
        return SourceRecord(
            topic=self._config.checkpoints_topic,
            partition=0,
            key_schema=BYTES,
            key=checkpoint.key(),
            value_schema=BYTES,
            value=checkpoint.value(),
            timestamp=now_ms,
            source_partition=checkpoint.source_partition(),
            source_offset=source_offset(0),
        )

    def _sync_target(self) -> None:
        """Set the translated offsets at the target. They are read first: none is set back."""
        assert self._target is not None, "it is started"
        for group, offsets in self._checkpoints.to_commit(self._without_members()).items():
            try:
                self._tell(group, commit_offsets(self._target, group, offsets))
            except ClientError as error:
                log.error("the offsets of group %s cannot be set: %s", group, error)

    def _without_members(self) -> dict[str, Offsets]:
        """Return the offsets at the target of groups that have no members there, or do not exist."""
        assert self._target is not None, "it is started"
        found: dict[str, Offsets] = {}
        for name, group in describe_groups(self._target, self._groups).items():
            if _is_not_found(group):
                found[name] = {}
            elif isinstance(group, ClientError):
                log.error("group %s at the target cannot be described: %s", name, group)
            elif group.state in _WITHOUT_MEMBERS:
                found[name] = fetch_offsets(self._target, name)
            else:
                _tell_of_members(name)
        return found

    def _tell(self, group: str, found: dict[TopicPartition, ClientError | None]) -> None:
        error = next((each for each in found.values() if each is not None), None)
        if isinstance(error, BrokerError) and error.code == ErrorCode.UNKNOWN_MEMBER_ID:
            _tell_of_members(group)
        elif error is not None:
            log.error("the offsets of group %s cannot be set: %s", group, error)

    def stop(self) -> None:
        """See `Task`."""
        self._stopping.set()
        if self._scheduler is not None:
            self._scheduler.close()
        if self._reader is not None:
            self._reader.close()
        for each in (self._source, self._target):
            if each is not None:
                each.close()


def _is_not_found(found: Group | ClientError) -> bool:
    return isinstance(found, BrokerError) and found.code == ErrorCode.GROUP_ID_NOT_FOUND


def _tell_of_members(group: str) -> None:
    log.warning("group %s has members at the target, so its offsets are not set", group)


class MirrorCheckpointConnector(SourceConnector):
    """See the module."""

    java_name: ClassVar[str] = "org.apache.kafka.connect.mirror.MirrorCheckpointConnector"
    task_class = MirrorCheckpointTask

    def __init__(self) -> None:
        self._config: MirrorConfig
        self._scheduler: Scheduler | None = None
        self._source: Cluster | None = None
        self._known: list[str] | None = None

    @classmethod
    def config(cls) -> ConfigDef:
        """See `Connector`."""
        return definitions.CHECKPOINT

    def validate(self, config: Config) -> dict[str, ConfigValue]:
        """See `Connector`."""
        values = definitions.validate(definitions.CHECKPOINT, config)
        if config.get("enabled", "true") == "false":
            return values
        if config.get("emit.checkpoints.enabled") == "false":
            add_error(
                values,
                "emit.checkpoints.enabled",
                "MirrorCheckpointConnector can't run with emit.checkpoints.enabled set to false",
            )
        if config.get("emit.offset-syncs.enabled") == "false":
            add_error(
                values,
                "emit.offset-syncs.enabled",
                "MirrorCheckpointConnector can't run without offset syncs",
            )
        return values

    def start(self, config: Config) -> None:
        """See `Connector`."""
        found = MirrorConfig(definitions.CHECKPOINT, config)
        self._config = found
        if not found.is_enabled:
            return
        self._topics = found.filter("topic.filter.class")
        self._wanted = found.filter("group.filter.class")
        self._source = make_cluster(found.client("source", "admin", "checkpoint-source-admin"))
        self._scheduler = Scheduler(found.label, found.timeout_s)
        self._scheduler.execute("making the topic of checkpoints", self._make_topic)
        self._scheduler.execute("looking for groups", self._load)
        every = found.interval_s("refresh.groups")
        self._scheduler.repeat("looking for groups", self._refresh, every, at_once=False)

    def stop(self) -> None:
        """See `Connector`."""
        if self._scheduler is not None:
            self._scheduler.close()
        if self._source is not None:
            self._source.close()

    def task_configs(self, max_tasks: int) -> Sequence[Config]:
        """See `Connector`."""
        if not self._config.is_enabled or self._config.interval_s("emit.checkpoints") is None:
            return []
        if self._known is None:
            raise RetriableError("Timeout while loading consumer groups.")
        return [
            {
                **self._config.given,
                definitions.TASK_GROUPS: ",".join(share),
                definitions.TASK_INDEX: str(index),
            }
            for index, share in enumerate(chunks(self._known, max_tasks))
        ]

    def alter_offsets(
        self, config: Config, offsets: Sequence[tuple[Partition, Offset | None]]
    ) -> bool:
        """See `SourceConnector`."""
        for partition, offset in offsets:
            if offset is not None:
                check_text(partition, "group")
                check_text(partition, "topic")
                check_partition(partition)
                check_only_zero(partition, offset)
        return True

    # -- the scheduler's thread -----------------------------------------------------------------

    def _make_topic(self) -> None:
        settings = self._config.client("target", "admin", "checkpoint-target-admin")
        with make_cluster(settings) as cluster:
            factor = self._config.parsed["checkpoints.topic.replication.factor"]
            create_compacted_topic(cluster, self._config.checkpoints_topic, factor)

    def _load(self) -> None:
        self._known = self._find()
        log.info("%s: %s groups", self._config.label, len(self._known))

    def _refresh(self) -> None:
        found = self._find()
        if found != (self._known or []):
            log.info("%s: %s groups", self._config.label, len(found))
            self._known = found
            self.context.request_task_reconfiguration()

    def _find(self) -> list[str]:
        """Return the groups that have an offset of a topic that is copied."""
        assert self._source is not None, "it is started"
        groups = [
            each.id
            for each in list_groups(self._source)
            if each.type.lower() in ("", "classic", "consumer")
            and each.protocol_type in ("", "consumer")
            and self._wanted.accepts(each.id)
        ]
        return [each for each in groups if self._is_copied(self._source, each)]

    def _is_copied(self, source: Cluster, group: str) -> bool:
        try:
            places = fetch_offsets(source, group)
        except ClientError as error:
            log.warning("%s: the offsets of group %s: %s", self._config.label, group, error)
            return group in (self._known or ())
        return any(self._topics.accepts(place.topic) for place in places)
