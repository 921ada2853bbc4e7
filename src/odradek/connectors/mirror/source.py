"""Copies the records of topics of one cluster into topics of another (`MirrorSourceConnector`).

The connector makes the topics at the target and gives each task some partitions. A task reads them, and
hears at which offsets the records were written, for the offset syncs.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import ClassVar

from odradek.client.admin.acls import create_acls, list_acls
from odradek.client.admin.configs import Resource, alter_configs, describe_configs
from odradek.client.admin.topics import (
    NewTopic,
    create_partitions,
    create_topics,
    exists_already,
    list_topics,
)
from odradek.client.cluster import Cluster
from odradek.client.errors import BrokerError, ClientError
from odradek.connectors.mirror import config as definitions
from odradek.connectors.mirror.clients import make_cluster
from odradek.connectors.mirror.config import MirrorConfig, add_error, client_settings
from odradek.connectors.mirror.filters import PropertyFilter
from odradek.connectors.mirror.internal_topics import create_compacted_topic
from odradek.connectors.mirror.offsets import check_offset, check_partition, check_text
from odradek.connectors.mirror.scheduler import Scheduler
from odradek.connectors.mirror.source_task import MirrorSourceTask
from odradek.connectors.mirror.topics import (
    Counts,
    Flow,
    changes,
    partitions_of,
    settings_of_new,
    shares,
)
from odradek.core.authorizer.filters import AclFilter
from odradek.core.connect.api import Config, Offset, Partition, SourceConnector
from odradek.core.connect.config_def import ConfigDef, ConfigValue
from odradek.model.acl import AclOperation, AclPermissionType, AclResourceType, PatternType
from odradek.model.config_resource import ResourceType
from odradek.model.errors import ErrorCode

log = logging.getLogger(__name__)

_SYNC_PREFIXES = ("offset-syncs-", "offset-syncs.topic.")
_ALL_ACLS = AclFilter(
    AclResourceType.TOPIC,
    None,
    PatternType.ANY,
    None,
    None,
    AclOperation.ANY,
    AclPermissionType.ANY,
)
_EXACTLY_ONCE = "exactly.once.support"


class MirrorSourceConnector(SourceConnector):
    """See the module."""

    java_name: ClassVar[str] = "org.apache.kafka.connect.mirror.MirrorSourceConnector"
    task_class = MirrorSourceTask

    def __init__(self) -> None:
        self._config: MirrorConfig
        self._flow: Flow
        self._properties: PropertyFilter
        self._scheduler: Scheduler | None = None
        self._clusters: list[Cluster] = []
        self._source: Cluster
        self._target: Cluster
        self._known: Counts = {}
        self._at_target: Counts = {}
        self._has_told_of_acls = False

    @classmethod
    def config(cls) -> ConfigDef:
        """See `Connector`."""
        return definitions.SOURCE

    def validate(self, config: Config) -> dict[str, ConfigValue]:
        """See `Connector`."""
        values = definitions.validate(definitions.SOURCE, config)
        if config.get(_EXACTLY_ONCE) == "required" and not self.exactly_once_support(config):
            add_error(
                values,
                _EXACTLY_ONCE,
                "MirrorSourceConnector can only provide exactly-once guarantees when its source consumer "
                "is configured with isolation.level set to 'read_committed'; otherwise, records from "
                "aborted and uncommitted transactions will be replicated from the source cluster to the "
                "target cluster.",
            )
        has_syncs = any(each.startswith(_SYNC_PREFIXES) for each in config)
        if config.get("emit.offset-syncs.enabled") == "false" and has_syncs:
            add_error(
                values,
                "emit.offset-syncs.enabled",
                "MirrorSourceConnector can't setup offset-syncs feature while "
                "emit.offset-syncs.enabled set to false",
            )
        return values

    def start(self, config: Config) -> None:
        """See `Connector`."""
        found = MirrorConfig(definitions.SOURCE, config)
        self._config = found
        if not found.is_enabled:
            return
        self._flow = Flow(
            found.source,
            found.target,
            found.policy,
            found.filter("topic.filter.class"),
            copies_heartbeats=found.parsed["heartbeats.replication.enabled"],
        )
        self._properties = found.filter("config.property.filter.class")
        self._source = make_cluster(found.client("source", "admin", "replication-source-admin"))
        self._clusters.append(self._source)
        self._target = make_cluster(found.client("target", "admin", "replication-target-admin"))
        self._clusters.append(self._target)
        scheduler = self._scheduler = Scheduler(found.label, found.timeout_s)

        scheduler.execute("making the topic of offset syncs", self._create_syncs_topic)
        scheduler.execute("looking for topics", self._load)
        scheduler.execute("making topics at the target", lambda: self._create_missing(self._known))
        scheduler.execute("looking for topics at the target", self._load_target)
        every = found.interval_s
        scheduler.repeat("copying ACLs", self._sync_acls, every("sync.topic.acls"), at_once=True)
        scheduler.repeat(
            "copying settings of topics",
            self._sync_configs,
            every("sync.topic.configs"),
            at_once=True,
        )
        scheduler.repeat(
            "looking for topics", self._refresh, every("refresh.topics"), at_once=False
        )
        log.info("%s copies %s partitions", found.label, len(partitions_of(self._known)))

    def stop(self) -> None:
        """See `Connector`."""
        if self._scheduler is not None:
            self._scheduler.close()
        for each in self._clusters:
            each.close()

    def task_configs(self, max_tasks: int) -> Sequence[Config]:
        """See `Connector`."""
        if not self._config.is_enabled:
            return []
        return [
            {
                **self._config.given,
                definitions.TASK_PARTITIONS: ",".join(map(str, share)),
                definitions.TASK_INDEX: str(index),
            }
            for index, share in enumerate(shares(partitions_of(self._known), max_tasks))
        ]

    def exactly_once_support(self, config: Config) -> bool | None:
        """It is exact if the consumer reads what is committed only."""
        level = client_settings(config, "source", "consumer").get("isolation.level")
        return level == "read_committed"

    def alter_offsets(
        self, config: Config, offsets: Sequence[tuple[Partition, Offset | None]]
    ) -> bool:
        """See `SourceConnector`."""
        for partition, offset in offsets:
            if offset is not None:
                check_text(partition, "cluster")
                check_text(partition, "topic")
                check_partition(partition)
                check_offset(partition, offset)
        return True

    # -- the scheduler's thread -----------------------------------------------------------------

    def _create_syncs_topic(self) -> None:
        found = self._config
        if not found.parsed["emit.offset-syncs.enabled"]:
            return
        place = "source" if found.syncs_are_at_source else "target"
        settings = found.client(place, "admin", f"offset-syncs-{place}-admin")
        with make_cluster(settings) as cluster:
            factor = found.parsed["offset-syncs.topic.replication.factor"]
            create_compacted_topic(cluster, found.offset_syncs_topic, factor)

    def _topics_of_source(self) -> Counts:
        return {
            each.name: len(each.partitions)
            for each in list_topics(self._source)
            if self._flow.accepts(each.name)
        }

    def _topics_of_target(self) -> Counts:
        return {
            each.name: len(each.partitions)
            for each in list_topics(self._target)
            if self._flow.is_copy(each.name)
        }

    def _load(self) -> None:
        self._known = self._topics_of_source()
        self._load_target()

    def _load_target(self) -> None:
        self._at_target = self._topics_of_target()

    def _refresh(self) -> None:
        source, target = self._topics_of_source(), self._topics_of_target()
        self._at_target = target
        if self._flow.has_changed(self._known, source, target):
            new = set(partitions_of(source)) - set(partitions_of(self._known))
            gone = set(partitions_of(self._known)) - set(partitions_of(source))
            log.info("%s: %s new partitions, %s are gone", self._config.label, len(new), len(gone))
            self._create_missing(source)
            self._known = source  # if that has failed, the next time begins from here again
            self.context.request_task_reconfiguration()

    def _create_missing(self, source: Counts) -> None:
        plan = self._flow.plan(source, self._at_target)
        if plan.new:
            self._create(plan.new)
        for topic, count in plan.bigger.items():
            try:
                create_partitions(self._target, topic, count)
                log.info("topic %s has %s partitions now", topic, count)
            except BrokerError as error:
                if error.code != ErrorCode.INVALID_PARTITIONS:
                    log.warning("topic %s cannot have %s partitions: %s", topic, count, error)

    def _create(self, new: dict[str, tuple[str, int]]) -> None:
        resources = {
            remote: Resource(ResourceType.TOPIC, topic) for remote, (topic, _) in new.items()
        }
        settings = describe_configs(self._source, resources.values())
        wanted = []
        for remote, (topic, count) in new.items():
            entries = settings[resources[remote]]
            if isinstance(entries, ClientError):
                log.warning("the settings of topic %s are not known: %s", topic, entries)
                continue
            own = settings_of_new(entries, self._properties)
            wanted.append(NewTopic(remote, count, self._config.parsed["replication.factor"], own))
        for name, found in create_topics(self._target, wanted).items():
            if not isinstance(found, ClientError):
                log.info("created topic %s with %s partitions", name, new[name][1])
            elif not exists_already(found):
                log.warning("topic %s cannot be created: %s", name, found)

    def _sync_configs(self) -> None:
        copied = [each for each in self._known if self._flow.remote(each) in self._at_target]
        settings = describe_configs(
            self._source, [Resource(ResourceType.TOPIC, each) for each in copied]
        )
        wanted = {
            Resource(ResourceType.TOPIC, self._flow.remote(resource.name)): changes(
                entries, self._properties
            )
            for resource, entries in settings.items()
            if not isinstance(entries, ClientError)
        }
        for resource, error in alter_configs(self._target, wanted).items():
            if error is not None:
                log.warning("the settings of topic %s cannot be set: %s", resource.name, error)

    def _sync_acls(self) -> None:
        try:
            found = list_acls(self._source, _ALL_ACLS)
        except BrokerError as error:
            if error.code != ErrorCode.SECURITY_DISABLED:
                raise
            if not self._has_told_of_acls:
                self._has_told_of_acls = True
                log.info(
                    "%s has no authorizer, so no ACLs are copied; sync.topic.acls.enabled=false "
                    "turns this off",
                    self._config.source,
                )
            return
        wanted = self._flow.acls(found)
        if wanted:
            create_acls(self._target, wanted)
