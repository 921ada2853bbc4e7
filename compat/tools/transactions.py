"""TransactionsCommand: every verb, on a transaction that ended, one that is open, one that hangs."""

from __future__ import annotations

import time

from compat.lab.wire_client import WireClient
from compat.scenarios.stage import equal, eventually
from compat.tools.workbench import Output, Workbench, check
from odradek.records.builder import RecordBatchBuilder
from odradek.wire.generated.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from odradek.wire.generated.add_partitions_to_txn_response import AddPartitionsToTxnResponse
from odradek.wire.generated.find_coordinator_request import FindCoordinatorRequest
from odradek.wire.generated.find_coordinator_response import FindCoordinatorResponse
from odradek.wire.generated.init_producer_id_request import InitProducerIdRequest
from odradek.wire.generated.init_producer_id_response import InitProducerIdResponse
from odradek.wire.generated.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from odradek.wire.generated.produce_response import ProduceResponse

TOOL = "TransactionsCommand"
TIMEOUT_MS = 60_000
DAY_MS = 86_400_000
VERIFICATION = "transaction.partition.verification.enable"


def _write(bench: Workbench, topic: str, name: str, *, adds: bool, age_ms: int = 0) -> int:
    """Leave a record in an open transaction, of which the coordinator knows if `adds`; the id of
    the producer."""
    with WireClient(bench.broker.port) as wire:
        begin = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=TIMEOUT_MS)
        find = FindCoordinatorRequest(key=name, key_type=1)
        wire.call("FindCoordinator", 3, find, FindCoordinatorResponse)
        who = eventually(  # the first of all waits for the coordinator's topic
            lambda: wire.call("InitProducerId", 4, begin, InitProducerIdResponse),
            lambda answer: not answer.error_code,
            "an answer to InitProducerId",
        )
        if adds:
            add = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=name,
                v3_and_below_producer_id=who.producer_id,
                v3_and_below_producer_epoch=who.producer_epoch,
                v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=[0])],
            )
            added = wire.call("AddPartitionsToTxn", 3, add, AddPartitionsToTxnResponse)
            result = added.results_by_topic_v3_and_below[0].results_by_partition[0]
            equal(result.partition_error_code, 0, "error of AddPartitionsToTxn")
        builder = RecordBatchBuilder(
            producer_id=who.producer_id,
            producer_epoch=who.producer_epoch,
            base_sequence=0,
            is_transactional=True,
        )
        builder.append(time.time_ns() // 1_000_000 - age_ms, None, b"open")
        data = PartitionProduceData(index=0, records=builder.build())
        produce = ProduceRequest(
            transactional_id=name,
            acks=-1,
            timeout_ms=TIMEOUT_MS,
            topic_data=[TopicProduceData(name=topic, partition_data=[data])],
        )
        eventually(  # a setting takes its time to spread
            lambda: (
                wire.call("Produce", 9, produce, ProduceResponse)
                .responses[0]
                .partition_responses[0]
                .error_code
            ),
            lambda code: code == 0,
            "error of Produce",
        )
        producer_id: int = who.producer_id
        return producer_id


def _until_closed(bench: Workbench, topic: str) -> Output:
    """What describe-producers says once no transaction is open in the topic's partition."""
    words = ["describe-producers", "--topic", topic, "--partition", "0"]
    return eventually(
        lambda: bench.tool(TOOL, *words), lambda told: "None" in told.out, "an end of transactions"
    )


@check("TransactionsCommand")
def transactions(bench: Workbench) -> None:
    """Transactional ids, listed with filters and described; the log is readable."""
    topic = bench.topic("tool-transactions")
    words = ["--topic", topic, "--num-records", "20", "--record-size", "10", "--throughput", "-1"]
    name = "tool-transactional-id"
    bench.tool("ProducerPerformance", *words, "--transactional-id", name)
    bench.tool(TOOL, "list").says(rf"^{name}\s*\t.*(Complete|Empty)")
    bench.tool(TOOL, "list", "--transactional-id-pattern", "tool-trans.*").says(rf"^{name}\s*\t")
    bench.tool(TOOL, "list", "--transactional-id-pattern", "other.*").says_not(name)
    bench.tool(TOOL, "list", "--duration-filter", "86400000").says_not(name)
    bench.tool(TOOL, "describe", "--transactional-id", name).says(rf"^\d+ *\t{name} *\t\d+")
    unknown = bench.try_tool(TOOL, "describe", "--transactional-id", "tool-nobody")
    equal(unknown.code, 1, "exit code for an unknown id")
    bench.reads_log("__transaction_state", "TransactionLogMessageFormatter").says(
        rf'"transactionalId":"{name}".*"transactionStatus":[45]'
    )


@check("TransactionsCommand describe-producers")
def producers(bench: Workbench) -> None:
    """The state of an idempotent producer."""
    topic = bench.topic("tool-producers")
    words = ["--topic", topic, "--num-records", "7", "--record-size", "10", "--throughput", "-1"]
    bench.tool("ProducerPerformance", *words)
    words = ["describe-producers", "--topic", topic, "--partition", "0"]
    bench.tool(TOOL, *words).says(
        r"^ProducerId *\tProducerEpoch", r"^\d+ +\t0 +\t-?\d+ +\t6 +\t\d{13}"
    )


@check("TransactionsCommand forceTerminateTransaction")
def force_terminate(bench: Workbench) -> None:
    """An open transaction is seen by all verbs, and ended from outside."""
    topic, name = bench.topic("tool-open"), "tool-open-id"
    producer_id = _write(bench, topic, name, adds=True)
    bench.tool(TOOL, "list").says(rf"^{name} *\t.*\t{producer_id} *\tOngoing")
    describe = ("describe", "--transactional-id", name)
    bench.tool(TOOL, *describe).says(rf"\tOngoing *\t{TIMEOUT_MS} *\t\d{{13}} *\t\d+ *\t{topic}-0")
    words = ["describe-producers", "--topic", topic, "--partition", "0"]
    bench.tool(TOOL, *words).says(rf"^{producer_id} *\t0 *\t-?\d+ *\t0 *\t\d{{13}} *\t0")
    bench.tool(TOOL, "find-hanging", "--topic", topic).says_not(rf"^{topic}")
    bench.tool(TOOL, "forceTerminateTransaction", "--transactionalId", name)
    _until_closed(bench, topic)
    bench.tool(TOOL, *describe).says(r"\tCompleteAbort *\t|\tEmpty *\t")


@check("TransactionsCommand abort")
def abort(bench: Workbench) -> None:
    """A transaction that no coordinator knows is found, and aborted where it hangs."""
    topic = bench.topic("tool-hanging")
    setting = ("kafka.admin.ConfigCommand", "--alter", "--broker-defaults")
    bench.tool(*setting, "--add-config", f"{VERIFICATION}=false")
    try:
        producer_id = _write(bench, topic, "tool-hanging-id", adds=False, age_ms=DAY_MS)
    finally:
        bench.tool(*setting, "--delete-config", VERIFICATION)
    found = bench.tool(TOOL, "find-hanging", "--broker-id", str(bench.broker_id()))
    found.says(rf"^{topic} *\t0 *\t{producer_id} *\t0 *\t-1 *\t0 *\t\d{{13}} *\t14[34]\d")
    words = ["--topic", topic, "--partition", "0"]
    bench.tool(TOOL, "abort", *words, "--start-offset", "0")
    _until_closed(bench, topic)
    bench.tool(TOOL, "find-hanging", "--topic", topic).says_not(rf"^{topic}")
    again = bench.try_tool(TOOL, "abort", *words, "--start-offset", "0")
    equal(again.code, 1, "exit code of aborting it again")
