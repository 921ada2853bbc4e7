"""Transactions whose end an outside coordinator decides (KIP-939): as far as Apache Kafka 4.3 goes."""

from __future__ import annotations

import time

import pytest
from compat.lab.wire_client import WireClient
from tests.transaction.test_produce import TIMEOUT_MS

from odradek.client.cluster import Cluster
from odradek.model.errors import ErrorCode
from odradek.testing import Broker
from odradek.wire.generated.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from odradek.wire.generated.add_partitions_to_txn_response import AddPartitionsToTxnResponse
from odradek.wire.generated.describe_transactions_request import DescribeTransactionsRequest
from odradek.wire.generated.describe_transactions_response import DescribeTransactionsResponse
from odradek.wire.generated.init_producer_id_request import InitProducerIdRequest
from odradek.wire.generated.init_producer_id_response import InitProducerIdResponse

KEY, VERSION = InitProducerIdRequest.API_KEY, 6
UNSTABLE = {"unstable.api.versions.enable": "true"}
ALLOWED = {**UNSTABLE, "transaction.two.phase.commit.enable": "true"}
SWEEP_MS = 50
BRIEF_MS = 200
"""A timeout, and more than a sweep."""


def initialize(broker: Broker, name: str, **options: object) -> InitProducerIdResponse:
    """Ask in version 6."""
    with Cluster(broker.bootstrap_servers) as cluster:
        cluster.coordinator(name, 1)
    request = InitProducerIdRequest(
        **{"transactional_id": name, "transaction_timeout_ms": BRIEF_MS, **options}
    )
    with WireClient(broker.port) as client:
        return client.call("InitProducerId", VERSION, request, InitProducerIdResponse)


def test_it_is_not_offered_by_default() -> None:
    with Broker() as broker, Cluster(broker.bootstrap_servers) as cluster:
        assert cluster.any().versions[KEY] == (0, VERSION - 1)


@pytest.mark.parametrize("settings", [UNSTABLE, ALLOWED])
def test_who_may_ask(settings: dict[str, str]) -> None:
    with Broker(settings=settings) as broker:
        with Cluster(broker.bootstrap_servers) as cluster:
            assert cluster.any().versions[KEY] == (0, VERSION)
        is_allowed = settings is ALLOWED
        refused = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        answer = initialize(broker, "two", enable2_pc=True)
        assert answer.error_code == (ErrorCode.NONE if is_allowed else refused)
        assert (answer.ongoing_txn_producer_id, answer.ongoing_txn_producer_epoch) == (-1, -1)
        assert initialize(broker, "one").error_code == ErrorCode.NONE
        kept = initialize(broker, "keep", keep_prepared_txn=True)
        assert kept.error_code == ErrorCode.UNSUPPORTED_VERSION


def test_such_transactions_do_not_time_out() -> None:
    settings = {
        **ALLOWED,
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": str(SWEEP_MS),
    }
    with Broker(settings=settings, topics={"orders": 1}) as broker:
        names = {"patient": True, "other": False}
        with Cluster(broker.bootstrap_servers) as cluster:
            for name, enable2_pc in names.items():
                producer = initialize(broker, name, enable2_pc=enable2_pc)
                connection = cluster.coordinator(name, 1)
                connection.versions[AddPartitionsToTxnRequest.API_KEY] = (0, 3)
                request = AddPartitionsToTxnRequest(
                    v3_and_below_transactional_id=name,
                    v3_and_below_producer_id=producer.producer_id,
                    v3_and_below_producer_epoch=producer.producer_epoch,
                    v3_and_below_topics=[AddPartitionsToTxnTopic(name="orders", partitions=[0])],
                )
                connection.request(request, AddPartitionsToTxnResponse, TIMEOUT_MS)
            states: dict[str, str] = {}
            while states.get("other") != "CompleteAbort":
                time.sleep(SWEEP_MS / 1000)
                answer = cluster.any().request(
                    DescribeTransactionsRequest(transactional_ids=list(names)),
                    DescribeTransactionsResponse,
                    TIMEOUT_MS,
                )
                found = answer.transaction_states
                states = {each.transactional_id: each.transaction_state for each in found}
                timeouts = {each.transactional_id: each.transaction_timeout_ms for each in found}
            assert states["patient"] == "Ongoing"
            assert timeouts == {"patient": 2**31 - 1, "other": BRIEF_MS}
