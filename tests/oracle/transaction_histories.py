"""Generated histories of transactional producers, asked of two brokers.

A history is a sequence of questions about two transactional ids: initializations with and without
a producer, additions, verifications, offsets, ends and descriptions, in all versions, some of them
with stale epochs or other producers' ids. Producer ids differ between brokers, so each is known by
the order in which it was first given.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from typing import Any

from odradek.client.admin.topics import NewTopic, create_topics
from odradek.client.cluster import Cluster
from odradek.model.errors import ErrorCode
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
from odradek.wire.generated.init_producer_id_request import InitProducerIdRequest
from odradek.wire.generated.init_producer_id_response import InitProducerIdResponse

TOPIC = "histories"
QUESTIONS = 25
PAUSE_SECONDS = 0.02
TRIES = 300
TIMEOUT_MS = 20_000
PASSING = {
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}
BATCHED_VERSION = 4
NOBODY = (-1, -1)
Question = dict[str, Any]
Answer = tuple[Any, ...]


class Histories:
    """Makes questions; learns from answers who the producers are."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._names = [f"{seed}-a", f"{seed}-b"]
        self._producers: dict[str, tuple[int, int]] = {}

    def questions(self) -> Iterator[Question]:
        """One history; `learn` the answer of each before the next one."""
        for _ in range(QUESTIONS):
            name = "" if self._random.random() < 0.03 else self._random.choice(self._names)
            yield {"name": name, **self._question(name)}

    def learn(self, question: Question, answer: Answer) -> None:
        """The producer goes on with what it was told."""
        if question["kind"] in {"initialize", "end"} and answer[0] == "NONE" and len(answer) > 1:
            self._producers[question["name"]] = answer[1], answer[2]

    def _question(self, name: str) -> Question:
        chance = self._random
        known = producer_id, epoch = self._producers.get(name, NOBODY)
        if chance.random() < 0.15:
            epoch = max(0, epoch + chance.choice((-2, -1, 1)))
        if chance.random() < 0.05:
            producer_id = chance.randrange(4)
        producer = (producer_id, epoch)
        kind = chance.choices(
            ("initialize", "add", "offsets", "end", "describe"), (22, 28, 8, 27, 15)
        )
        match kind[0]:
            case "initialize":
                is_new = known == NOBODY or chance.random() < 0.5
                return {
                    "kind": "initialize",
                    "producer": NOBODY if is_new else producer,
                    "timeout_ms": chance.choice((60_000,) * 8 + (0, 900_001)),
                    "version": chance.choice((1, 3, 4, 5) if is_new else (3, 4, 5)),
                }
            case "add":
                return {
                    "kind": "add",
                    "producer": producer,
                    "partitions": chance.choice(([0], [0, 1], [2], [1, 2], [0, 7])),
                    "version": chance.choice((0, 1, 2, 3, 4, 5, 5, 5)),
                    "verify_only": chance.random() < 0.2,
                }
            case "offsets":
                version = chance.choice((0, 1, 2, 4))
                return {"kind": "offsets", "producer": producer, "version": version}
            case "end":
                return {
                    "kind": "end",
                    "producer": producer,
                    "committed": chance.random() < 0.6,
                    "version": chance.choice((0, 1, 3, 4, 5, 5, 5, 5)),
                }
        return {"kind": "describe"}


class Player:
    """Asks one broker."""

    def __init__(self, bootstrap: str) -> None:
        self._cluster = Cluster(bootstrap)
        create_topics(self._cluster, [NewTopic(TOPIC, 3, 1, {})])
        for kind in (0, 1):
            self._cluster.coordinator("any", kind)
        self._connection = self._cluster.any()
        self._versions = dict(self._connection.versions)
        self._ids: list[int] = []

    def close(self) -> None:
        self._cluster.close()

    def ask(self, question: Question) -> Answer:
        """The answer, with producer ids by their order."""
        return getattr(self, f"_{question['kind']}")(question)  # type: ignore[no-any-return]

    def _known(self, producer_id: int) -> int:
        if producer_id >= 0 and producer_id not in self._ids:
            self._ids.append(producer_id)
        return self._ids.index(producer_id) if producer_id >= 0 else producer_id

    def _who(self, question: Question) -> dict[str, Any]:
        number, epoch = question["producer"]
        producer_id = self._ids[number] if 0 <= number < len(self._ids) else number
        return {"producer_id": producer_id, "producer_epoch": epoch}

    def _patiently(
        self, question: Question, request: Any, response: Any, codes: Callable[[Any], list[int]]
    ) -> tuple[Any, list[str]]:
        """Ask in the question's version until the answer is not one that passes."""
        lowest, _ = self._versions[request.API_KEY]
        self._connection.versions[request.API_KEY] = (lowest, question["version"])
        for _ in range(TRIES):
            answer = self._connection.request(request, response, TIMEOUT_MS)
            names = [ErrorCode(code) for code in codes(answer)]  # type: ignore[call-arg]
            if not PASSING.intersection(names):
                break
            time.sleep(PAUSE_SECONDS)
        return answer, [name.name for name in names]

    def _initialize(self, question: Question) -> Answer:
        request = InitProducerIdRequest(
            transactional_id=question["name"],
            transaction_timeout_ms=question["timeout_ms"],
            **self._who(question),
        )
        answer, (code,) = self._patiently(
            question, request, InitProducerIdResponse, lambda each: [each.error_code]
        )
        return code, self._known(answer.producer_id), answer.producer_epoch

    def _add(self, question: Question) -> Answer:
        who = self._who(question)
        topics = [AddPartitionsToTxnTopic(name=TOPIC, partitions=question["partitions"])]
        if question["version"] >= BATCHED_VERSION:
            transaction = AddPartitionsToTxnTransaction(
                transactional_id=question["name"],
                verify_only=question["verify_only"],
                topics=topics,
                **who,
            )
            request = AddPartitionsToTxnRequest(transactions=[transaction])
        else:
            request = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=question["name"],
                v3_and_below_producer_id=who["producer_id"],
                v3_and_below_producer_epoch=who["producer_epoch"],
                v3_and_below_topics=topics,
            )

        def results(answer: Any) -> list[Any]:
            topics = answer.results_by_topic_v3_and_below
            if question["version"] >= BATCHED_VERSION:
                topics = answer.results_by_transaction[0].topic_results
            by_index = topics[0].results_by_partition
            return sorted(by_index, key=lambda each: each.partition_index)

        _, codes = self._patiently(
            question,
            request,
            AddPartitionsToTxnResponse,
            lambda answer: [each.partition_error_code for each in results(answer)],
        )
        return tuple(codes)

    def _offsets(self, question: Question) -> Answer:
        request = AddOffsetsToTxnRequest(
            transactional_id=question["name"], group_id="group", **self._who(question)
        )
        _, codes = self._patiently(
            question, request, AddOffsetsToTxnResponse, lambda each: [each.error_code]
        )
        return tuple(codes)

    def _end(self, question: Question) -> Answer:
        request = EndTxnRequest(
            transactional_id=question["name"],
            committed=question["committed"],
            **self._who(question),
        )
        answer, (code,) = self._patiently(
            question, request, EndTxnResponse, lambda each: [each.error_code]
        )
        if question["version"] < 5:
            return (code,)
        return code, self._known(answer.producer_id), answer.producer_epoch

    def _describe(self, question: Question) -> Answer:
        request = DescribeTransactionsRequest(transactional_ids=[question["name"]])
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
            (each.topic, sorted(each.partitions) if each.topic == TOPIC else [])
            for each in found.topics
        )
        producer = self._known(found.producer_id), found.producer_epoch
        return code.name, found.transaction_state, producer, found.transaction_timeout_ms, topics
