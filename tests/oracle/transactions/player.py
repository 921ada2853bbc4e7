"""Sends the requests of a history to a broker, and returns its responses in a comparable form."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from tests.oracle.transactions.requests import (
    BRIEF_TIMEOUT_MS,
    NOBODY,
    PARTITIONS,
    Answer,
    Step,
)

from odradek.client.admin.topics import NewTopic, create_topics
from odradek.client.cluster import Cluster
from odradek.client.offsets import READ_COMMITTED, READ_UNCOMMITTED
from odradek.model.errors import ErrorCode
from odradek.records.batch import iterate_batches
from odradek.records.builder import RecordBatchBuilder
from odradek.records.control import control_type
from odradek.records.record import iterate_records
from odradek.wire.generated.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from odradek.wire.generated.add_offsets_to_txn_response import AddOffsetsToTxnResponse
from odradek.wire.generated.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from odradek.wire.generated.add_partitions_to_txn_response import AddPartitionsToTxnResponse
from odradek.wire.generated.describe_transactions_request import DescribeTransactionsRequest
from odradek.wire.generated.describe_transactions_response import DescribeTransactionsResponse
from odradek.wire.generated.end_txn_request import EndTxnRequest
from odradek.wire.generated.end_txn_response import EndTxnResponse
from odradek.wire.generated.fetch_request import FetchPartition, FetchRequest, FetchTopic
from odradek.wire.generated.fetch_response import FetchResponse, PartitionData
from odradek.wire.generated.init_producer_id_request import InitProducerIdRequest
from odradek.wire.generated.init_producer_id_response import InitProducerIdResponse
from odradek.wire.generated.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from odradek.wire.generated.offset_fetch_response import OffsetFetchResponse
from odradek.wire.generated.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from odradek.wire.generated.produce_response import ProduceResponse
from odradek.wire.generated.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from odradek.wire.generated.txn_offset_commit_response import TxnOffsetCommitResponse

PAUSE_SECONDS = 0.005
TRIES = 2000
TIMEOUT_MS = 20_000
FETCH_BYTES_MAX = 1 << 20
RETRIABLE = {
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_ENOUGH_REPLICAS,
}
"""Produce returns the last error if a coordinator is not available."""
BATCHED_VERSION = 4
FETCH_VERSION = 12


class Player:
    """Sends requests to one broker. It has its own topic, so that offsets can be compared."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._topic = topic
        self._cluster = Cluster(bootstrap)
        create_topics(self._cluster, [NewTopic(self._topic, PARTITIONS, 1, {})])
        for kind in (0, 1):
            self._cluster.coordinator("any", kind)
        self._connection = self._cluster.any()
        self._versions = dict(self._connection.versions)
        self._ids: list[int] = []
        self._starts = [0] * PARTITIONS

    def close(self) -> None:
        self._cluster.close()

    def ask(self, step: Step) -> Answer:
        """Send a request, and return a comparable response after the transaction has settled."""
        answer: Answer = getattr(self, f"_{step['kind']}")(step)
        if step["kind"] in {"initialize", "end"}:
            self._describe(step)
        return answer

    def _known(self, producer_id: int) -> int:
        if producer_id >= 0 and producer_id not in self._ids:
            self._ids.append(producer_id)
        return self._ids.index(producer_id) if producer_id >= 0 else producer_id

    def _request(self, request: Any, response: Any, version: int) -> Any:
        lowest, _ = self._versions[request.API_KEY]
        self._connection.versions[request.API_KEY] = (lowest, version)
        return self._connection.request(request, response, TIMEOUT_MS)

    def _who(self, step: Step) -> dict[str, Any]:
        number, epoch = step["producer"]
        producer_id = self._ids[number] if 0 <= number < len(self._ids) else number
        return {"producer_id": producer_id, "producer_epoch": epoch}

    def _patiently(
        self, step: Step, request: Any, response: Any, codes: Callable[[Any], list[int]]
    ) -> tuple[Any, list[str]]:
        """Send a request in the step's version. Repeat it while the error is retriable."""
        for _ in range(TRIES):
            answer = self._request(request, response, step["version"])
            names = [ErrorCode(code) for code in codes(answer)]  # type: ignore[call-arg]
            if not RETRIABLE.intersection(names):
                break
            time.sleep(PAUSE_SECONDS)
        return answer, [name.name for name in names]

    def _initialize(self, step: Step) -> Answer:
        request = InitProducerIdRequest(
            transactional_id=step["name"],
            transaction_timeout_ms=step["timeout_ms"],
            **self._who(step),
        )
        answer, (code,) = self._patiently(
            step, request, InitProducerIdResponse, lambda each: [each.error_code]
        )
        return code, self._known(answer.producer_id), answer.producer_epoch

    def _add(self, step: Step) -> Answer:
        who = self._who(step)
        topics = [AddPartitionsToTxnTopic(name=self._topic, partitions=step["partitions"])]
        if step["version"] >= BATCHED_VERSION:
            transaction = AddPartitionsToTxnTransaction(
                transactional_id=step["name"],
                verify_only=step["verify_only"],
                topics=topics,
                **who,
            )
            request = AddPartitionsToTxnRequest(transactions=[transaction])
        else:
            request = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=step["name"],
                v3_and_below_producer_id=who["producer_id"],
                v3_and_below_producer_epoch=who["producer_epoch"],
                v3_and_below_topics=topics,
            )

        def results(answer: Any) -> list[Any]:
            topics = answer.results_by_topic_v3_and_below
            if step["version"] >= BATCHED_VERSION:
                topics = answer.results_by_transaction[0].topic_results
            by_index = topics[0].results_by_partition
            return sorted(by_index, key=lambda each: each.partition_index)

        _, codes = self._patiently(
            step,
            request,
            AddPartitionsToTxnResponse,
            lambda answer: [each.partition_error_code for each in results(answer)],
        )
        return tuple(codes)

    def _offsets(self, step: Step) -> Answer:
        request = AddOffsetsToTxnRequest(
            transactional_id=step["name"], group_id=step["group"], **self._who(step)
        )
        _, codes = self._patiently(
            step, request, AddOffsetsToTxnResponse, lambda each: [each.error_code]
        )
        return tuple(codes)

    def _end(self, step: Step) -> Answer:
        request = EndTxnRequest(
            transactional_id=step["name"],
            committed=step["committed"],
            **self._who(step),
        )
        answer, (code,) = self._patiently(
            step, request, EndTxnResponse, lambda each: [each.error_code]
        )
        if step["version"] < 5:
            return (code,)
        return code, self._known(answer.producer_id), answer.producer_epoch

    def _describe(self, step: Step) -> Answer:
        request = DescribeTransactionsRequest(transactional_ids=[step["name"]])
        for _ in range(TRIES):
            answer = self._connection.request(request, DescribeTransactionsResponse, TIMEOUT_MS)
            (found,) = answer.transaction_states
            if not found.transaction_state.startswith("Prepare"):
                break
            time.sleep(PAUSE_SECONDS)
        code = ErrorCode(found.error_code)  # type: ignore[call-arg]
        if code is not ErrorCode.NONE:
            return (code.name,)
        topics = sorted(
            (each.topic, sorted(each.partitions) if each.topic == self._topic else [])
            for each in found.topics
        )
        producer = self._known(found.producer_id), found.producer_epoch
        return code.name, found.transaction_state, producer, found.transaction_timeout_ms, topics

    def _produce(self, step: Step) -> Answer:
        who = self._who(step)
        builder = RecordBatchBuilder(base_sequence=step["sequence"], is_transactional=True, **who)
        return self._write(step, builder, step["name"])

    def _plain(self, step: Step) -> Answer:
        return self._write({"version": 9, **step}, RecordBatchBuilder(), None)

    def _write(
        self, step: Step, builder: RecordBatchBuilder, transactional_id: str | None
    ) -> Answer:
        for value in step["values"]:
            builder.append(1, None, value.encode())
        data = PartitionProduceData(index=step["partition"], records=builder.build())
        request = ProduceRequest(
            transactional_id=transactional_id,
            acks=-1,
            timeout_ms=TIMEOUT_MS,
            topic_data=[TopicProduceData(name=self._topic, partition_data=[data])],
        )

        def result(answer: ProduceResponse) -> Any:
            return answer.responses[0].partition_responses[0]

        answer, (code,) = self._patiently(
            step, request, ProduceResponse, lambda each: [result(each).error_code]
        )
        return code, result(answer).base_offset

    def _commit(self, step: Step) -> Answer:
        partition = TxnOffsetCommitRequestPartition(
            partition_index=step["partition"],
            committed_offset=step["offset"],
            committed_metadata="so far",
        )
        request = TxnOffsetCommitRequest(
            transactional_id=step["name"],
            group_id=step["group"],
            member_id="",
            topics=[TxnOffsetCommitRequestTopic(name=self._topic, partitions=[partition])],
            **self._who(step),
        )
        _, codes = self._patiently(
            step,
            request,
            TxnOffsetCommitResponse,
            lambda each: [each.topics[0].partitions[0].error_code],
        )
        return tuple(codes)

    def _lapse(self, step: Step) -> Answer:
        """Begin a transaction that times out. Then the producer continues."""
        step = {**step, "producer": NOBODY, "timeout_ms": BRIEF_TIMEOUT_MS}
        code, *producer = self._initialize(step)
        step.update(producer=tuple(producer), sequence=0, version=12, committed=True)
        answers = [code, *producer, self._produce(step)]
        for _ in range(TRIES):
            described = self._describe(step)
            if described[1] != "Ongoing":
                break
            time.sleep(PAUSE_SECONDS)
        step["sequence"] = len(step["values"])
        answers += [described, self._produce(step)]
        return *answers, self._end({**step, "version": 5}), self._describe(step)

    def _begin(self, step: Step) -> Answer:
        """Start a history at the current end of the log."""
        data = self._fetch(READ_UNCOMMITTED)
        self._starts = [each.high_watermark for each in data]
        return (*self._starts, *self._offsets_of(step))

    def _look(self, step: Step) -> Answer:
        """Return what consumers read in both isolation levels, and the group's offsets."""
        seen = (tuple(self._seen(level)) for level in (READ_UNCOMMITTED, READ_COMMITTED))
        return *seen, *self._offsets_of(step)

    def _fetch(self, isolation: int) -> list[PartitionData]:
        places = [
            FetchPartition(partition=index, fetch_offset=start, partition_max_bytes=FETCH_BYTES_MAX)
            for index, start in enumerate(self._starts)
        ]
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            isolation_level=isolation,
            topics=[FetchTopic(topic=self._topic, partitions=places)],
        )
        answer = self._request(request, FetchResponse, FETCH_VERSION)
        return sorted(answer.responses[0].partitions, key=lambda each: each.partition_index)

    def _seen(self, isolation: int) -> Iterator[Answer]:
        for data in self._fetch(isolation):
            aborted = sorted(
                (each.first_offset, self._known(each.producer_id))
                for each in data.aborted_transactions or ()
            )
            records = tuple(self._records(data, isolation))
            yield data.error_code, data.high_watermark, data.last_stable_offset, aborted, records

    def _records(self, data: PartitionData, isolation: int) -> Iterator[Answer]:
        """Yield all records in the log, and whether a consumer returns them."""
        aborted = sorted(
            ((each.first_offset, each.producer_id) for each in data.aborted_transactions or ()),
            reverse=True,
        )
        dropped: set[int] = set()
        for batch in iterate_batches(data.records or b""):
            producer = self._known(batch.producer_id), batch.producer_epoch
            while aborted and aborted[-1][0] <= batch.last_offset:
                dropped.add(aborted.pop()[1])
            for record in iterate_records(batch):
                if batch.is_control:
                    dropped.discard(batch.producer_id)
                    yield record.offset, producer, control_type(record).name
                else:
                    is_shown = not (batch.is_transactional and batch.producer_id in dropped)
                    yield record.offset, producer, batch.base_sequence, record.value, is_shown

    def _offsets_of(self, step: Step) -> Answer:
        """Return the group's committed offsets, without and with `require_stable`."""
        return tuple(self._committed(step["group"], stable) for stable in (False, True))

    def _committed(self, group: str, require_stable: bool) -> Answer:
        topic = OffsetFetchRequestTopics(
            name=self._topic, partition_indexes=list(range(PARTITIONS + 1))
        )
        request = OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=group, topics=[topic])],
            require_stable=require_stable,
        )
        answer = self._request(request, OffsetFetchResponse, 9)
        return tuple(
            (each.partition_index, each.committed_offset, each.metadata, each.error_code)
            for topic in answer.groups[0].topics
            for each in sorted(topic.partitions, key=lambda one: one.partition_index)
        )
