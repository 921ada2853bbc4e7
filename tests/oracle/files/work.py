"""The work of the clients between two stops. The clients continue with the next broker."""

from __future__ import annotations

import time

from tests.oracle.files.members import ClassicMember, ConsumerMember, commit
from tests.oracle.files.observation import (
    BROKER,
    CLIENT_METRICS,
    GROUP,
    TOPIC,
    Observer,
    Seen,
    plain,
)
from tests.oracle.files.producers import Record, StoredProducer, write
from tests.oracle.files.protocol import Client

from odradek.client.cluster import GROUP as GROUP_KEY
from odradek.client.cluster import TRANSACTION as TRANSACTION_KEY
from odradek.model.errors import ErrorCode
from odradek.records.builder import RecordBatchBuilder
from odradek.records.compression import Codec
from odradek.wire.generated.alter_client_quotas_request import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from odradek.wire.generated.create_topics_request import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from odradek.wire.generated.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from odradek.wire.generated.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from odradek.wire.generated.describe_client_quotas_request import DescribeClientQuotasRequest
from odradek.wire.generated.find_coordinator_request import FindCoordinatorRequest
from odradek.wire.generated.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.wire.generated.share_group_describe_request import ShareGroupDescribeRequest
from odradek.wire.generated.share_group_heartbeat_request import ShareGroupHeartbeatRequest

HOUR_MS = 3_600_000
TIMEOUT_MS = 30_000
PLAIN, SEQUENCED, COMPACTED, TRIMMED = "plain", "sequenced", "compacted", "trimmed"
PLAIN_PARTITIONS = 3
KEYS = 12
ROLLED_EACH_HOUR = {"segment.ms": str(HOUR_MS), "segment.jitter.ms": "0", "retention.ms": "-1"}
TOPICS: dict[str, tuple[int, dict[str, str]]] = {
    PLAIN: (PLAIN_PARTITIONS, ROLLED_EACH_HOUR),
    SEQUENCED: (3, {**ROLLED_EACH_HOUR, "segment.ms": "60000"}),
    TRIMMED: (1, ROLLED_EACH_HOUR),
    COMPACTED: (
        1,
        {
            **ROLLED_EACH_HOUR,
            "cleanup.policy": "compact",
            "min.cleanable.dirty.ratio": "0.01",
            "delete.retention.ms": "100000000000",
        },
    ),
}
COMMITS, ABORTS, RESUMED, FENCED = "commits", "aborts", "resumed", "fenced"
"""Transactional ids. The transactions of the last two are open when the broker changes: one is
continued, and one is aborted by a new epoch."""
SHARE, SHARE_MEMBER = "share", "AAAAAAAAAAAAAAAAAAAAAQ"
STABLE, PENDING = "offsets-of-transactions", "offsets-of-open-transactions"
RESOURCES = [(BROKER, ""), (BROKER, "1"), (CLIENT_METRICS, "metrics"), (GROUP, "consumer")]


class Work:
    """The clients of one data directory."""

    def __init__(self) -> None:
        self.starts = 0
        now = time.time_ns() // 1_000_000
        self._old_ms = now - 900 * HOUR_MS
        """Timestamp of the next batch. Each batch is half an hour later than the one before it."""
        self._new_ms = now - 10 * HOUR_MS
        """The same for producers with an id, because brokers remove their state after a day."""
        self.timestamps = [self._old_ms + step * HOUR_MS for step in range(0, 60, 5)]
        self._idempotent = StoredProducer()
        self._last: list[Record] = []
        self._last_offset = -1
        self._producer_id_max = -1
        names = (COMMITS, ABORTS, RESUMED, FENCED)
        self._transactional = {name: StoredProducer(name) for name in names}
        self._members = [
            ClassicMember("classic", PLAIN, None),
            ClassicMember("static", PLAIN, "instance"),
            ConsumerMember("consumer", PLAIN),
        ]
        self.latest: dict[bytes, bytes | None] = {}
        """The last value of each key in the compacted topic."""
        self.committed: list[bytes] = []
        """The values of the records in committed transactions."""
        self._open: list[Record] = []
        """The records of the open transaction that will be committed."""
        self.produced = 0
        """The number of records in the plain topic."""
        self._shares = False
        """Whether the share group has its member."""
        self._unserved: Seen = {"quotas": []}
        """State that Odradek stores but does not serve, as last read from Apache Kafka."""
        self.deleted: list[str] = []
        self.log_start_offset = 0
        """The log start offset of the trimmed topic. It is inside a batch."""

    def see(self, client: Client) -> Seen:
        """Return everything that must be the same with the next broker."""
        seen = Observer(client, self.timestamps).see(sorted(self._transactional), RESOURCES)
        if client.serves(DescribeClientQuotasRequest):
            self._unserved["quotas"] = plain(client.ask(DescribeClientQuotasRequest(), 1).entries)
        if self._shares and client.serves(ShareGroupDescribeRequest):
            (group,) = client.ask(ShareGroupDescribeRequest(group_ids=[SHARE]), 1).groups
            assert [each.member_id for each in group.members] == [SHARE_MEMBER]
            self._unserved["share group"] = plain(group)
        seen.update(self._unserved)
        return seen

    def run(self, client: Client) -> None:
        """Continue the work after a start."""
        if not self.starts:
            self._create(client, TOPICS)
            for key_type in (GROUP_KEY, TRANSACTION_KEY):  # creates the coordinator's topic
                request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=["any"])
                client.ask(request, 4)
        self._configure(client)
        self._create_and_delete(client)
        self._write_plain(client)
        self._write_sequenced(client)
        self._write_compacted(client)
        self._go_on_with_open_transactions(client)
        self._transact(client)
        self._commit_offsets(client)
        self._delete_records(client)
        self._open_transactions(client)
        self.starts += 1

    # -- topics and settings ------------------------------------------------------------------------

    def _create(self, client: Client, topics: dict[str, tuple[int, dict[str, str]]]) -> None:
        created = [
            CreatableTopic(
                name=name,
                num_partitions=count,
                replication_factor=1,
                configs=[CreatableTopicConfig(name=k, value=v) for k, v in settings.items()],
            )
            for name, (count, settings) in topics.items()
        ]
        client.ask(CreateTopicsRequest(topics=created, timeout_ms=TIMEOUT_MS), 7)

    def _create_and_delete(self, client: Client) -> None:
        kept, deleted = f"created-{self.starts}", f"deleted-{self.starts}"
        self._create(client, {name: (2, {"retention.ms": "-1"}) for name in (kept, deleted)})
        for name in (kept, deleted):
            write(client, name, 1, RecordBatchBuilder(), [(self._old_ms, None, name.encode())])
        request = DeleteTopicsRequest(
            topics=[DeleteTopicState(name=deleted)], timeout_ms=TIMEOUT_MS
        )
        client.ask(request, 6)
        self.deleted.append(deleted)

    def _configure(self, client: Client) -> None:
        """Change settings of all kinds, and a quota."""
        number = self.starts
        settings = [
            (TOPIC, PLAIN, "max.message.bytes", str(900_000 + number)),
            (BROKER, "", "message.max.bytes", str(1_000_000 + number)),
            (BROKER, "1", "log.cleaner.io.buffer.size", str(600_000 + number)),
            (GROUP, "consumer", "consumer.session.timeout.ms", str(200_000 + number)),
            (CLIENT_METRICS, "metrics", "interval.ms", str(70_000 + number)),
        ]
        for kind, resource, name, value in settings:
            config = AlterableConfig(name=name, config_operation=0, value=value)
            altered = AlterConfigsResource(
                resource_type=kind, resource_name=resource, configs=[config]
            )
            client.ask(IncrementalAlterConfigsRequest(resources=[altered]), 1)
        if client.serves(AlterClientQuotasRequest):
            entry = EntryData(
                entity=[EntityData(entity_type="user", entity_name="somebody")],
                ops=[OpData(key="producer_byte_rate", value=1e6 + number)],
            )
            client.ask(AlterClientQuotasRequest(entries=[entry]), 1)

    # -- records ----------------------------------------------------------------------------------

    def _records(self, count: int, text: str, *, is_new: bool = False) -> list[Record]:
        """Return the records of a batch. Each fourth has no key, each fifth has no value."""
        start = self._new_ms if is_new else self._old_ms
        if is_new:
            self._new_ms += 25_000
        else:
            self._old_ms += HOUR_MS // 2
        return [
            (
                start + number,
                b"key %d" % number if number % 4 else None,
                f"{text} {self.starts} {number}".encode() * 3 if number % 5 else None,
            )
            for number in range(1, count + 1)
        ]

    def _write_plain(self, client: Client) -> None:
        for codec in Codec:
            for index in range(PLAIN_PARTITIONS):
                records = self._records(15, codec.name)
                builder = RecordBatchBuilder(codec=codec)
                write(client, PLAIN, index, builder, records)
                self.produced += len(records)

    def _write_sequenced(self, client: Client) -> None:
        """Continue an idempotent producer. A new producer gets an unused id."""
        producer = self._idempotent
        if self.starts:
            repeated = producer.produce(client, SEQUENCED, 1, self._last, is_repeated=True)
            assert repeated == self._last_offset, "a duplicate was appended"
            skipped = self._records(2, "skipped", is_new=True)
            producer.sequences[SEQUENCED, 1] += 1
            producer.produce(client, SEQUENCED, 1, skipped, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
            producer.sequences[SEQUENCED, 1] -= 1
        else:
            producer.initialize(client)
        for codec in Codec:
            for index in range(2):
                self._last = self._records(4, "idempotent", is_new=True)
                self._last_offset = producer.produce(
                    client, SEQUENCED, index, self._last, codec=codec
                )
        other = StoredProducer()
        other.initialize(client)
        assert other.producer_id > max(self._producer_id_max, producer.producer_id)
        other.produce(client, SEQUENCED, 0, self._records(2, "another", is_new=True))
        self._producer_id_max = other.producer_id

    def _write_compacted(self, client: Client) -> None:
        for number in range(12):
            start = self._old_ms
            self._old_ms += HOUR_MS // 2
            records = [
                (start, b"key %d" % key, f"{self.starts} {number}".encode() if key != 5 else None)
                for key in range(number % 3, KEYS, 2)
            ]
            write(client, COMPACTED, 0, RecordBatchBuilder(codec=Codec(number % 5)), records)
            self.latest.update((key, value) for _, key, value in records)

    def _delete_records(self, client: Client) -> None:
        for codec in Codec:
            write(client, TRIMMED, 0, RecordBatchBuilder(codec=codec), self._records(10, "trimmed"))
        self.log_start_offset = 50 * self.starts + 27
        partition = DeleteRecordsPartition(partition_index=0, offset=self.log_start_offset)
        topic = DeleteRecordsTopic(name=TRIMMED, partitions=[partition])
        client.ask(DeleteRecordsRequest(topics=[topic], timeout_ms=TIMEOUT_MS), 2)

    # -- transactions -----------------------------------------------------------------------------

    def _transact(self, client: Client) -> None:
        """Write two transactions one after the other. Commit one and abort one."""
        for name in (COMMITS, ABORTS):
            producer = self._transactional[name]
            if producer.producer_id < 0:
                producer.initialize(client)
            for index in range(2):
                records = self._records(3, name, is_new=True)
                producer.produce(client, SEQUENCED, index, records, codec=Codec(index + 3))
                if name == COMMITS:
                    self._has_committed(records)
            producer.commit_offset(client, STABLE, PLAIN, 1000 * self.starts + len(name))
            producer.end(client, is_commit=name == COMMITS)

    def _open_transactions(self, client: Client) -> None:
        for name in (RESUMED, FENCED):
            producer = self._transactional[name]
            if producer.producer_id < 0:
                producer.initialize(client)
            records = self._records(3, name, is_new=True)
            producer.produce(client, SEQUENCED, 0, records)
            producer.commit_offset(client, f"{PENDING}-{name}", PLAIN, 2000 * self.starts + 7)
            if name == RESUMED:
                self._open = records

    def _go_on_with_open_transactions(self, client: Client) -> None:
        if not self.starts:
            return
        resumed, fenced = self._transactional[RESUMED], self._transactional[FENCED]
        records = self._records(3, RESUMED, is_new=True)
        resumed.produce(client, SEQUENCED, 0, records)
        self._has_committed([*self._open, *records])
        resumed.end(client, is_commit=True)
        stale = StoredProducer(FENCED)
        stale.producer_id, stale.epoch = fenced.producer_id, fenced.epoch
        stale.sequences.update(fenced.sequences)
        fenced.initialize(client)
        late = self._records(2, "late", is_new=True)
        stale.produce(client, SEQUENCED, 0, late, ErrorCode.INVALID_PRODUCER_EPOCH)

    def _has_committed(self, records: list[Record]) -> None:
        self.committed += [value for _, _, value in records if value is not None]

    def _may_share(self, client: Client) -> bool:
        """Return whether share groups can be used. A directory that Odradek formatted lacks the
        feature."""
        return client.serves(ShareGroupHeartbeatRequest) and "share.version" in client.features

    # -- groups -----------------------------------------------------------------------------------

    def _commit_offsets(self, client: Client) -> None:
        commit(client, "without-members", PLAIN, 10 * self.starts)
        commit(client, "without-members", SEQUENCED, 10 * self.starts + 5)
        for member in self._members:
            if not self.starts:
                member.join(client)
            member.work(client, 100 * self.starts)
        if self._may_share(client) and not self._shares:
            request = ShareGroupHeartbeatRequest(
                group_id=SHARE,
                member_id=SHARE_MEMBER,
                member_epoch=0,
                subscribed_topic_names=[PLAIN],
            )
            client.ask(request, 1)
            self._shares = True
