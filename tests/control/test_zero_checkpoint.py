"""The first records of a cluster are the same whichever of Odradek and Apache Kafka 4.4 formats it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from compat.lab.apache_kafka import NextApacheKafka
from compat.lab.broker import Broker
from compat.lab.odradek_node import OdradekNode
from compat.lab.toolchain import Missing
from tests.support.waiting import until

from odradek.broker.raft.metadata_log import METADATA_PARTITION
from odradek.core.metadata.record import decode_record
from odradek.records.batch import iterate_batches
from odradek.records.record import iterate_records
from odradek.wire.generated.end_transaction_record import EndTransactionRecord
from odradek.wire.generated.feature_level_record import FeatureLevelRecord
from odradek.wire.generated.user_scram_credential_record import UserScramCredentialRecord
from odradek.wire.primitives import Message

pytestmark = [pytest.mark.java, pytest.mark.cluster]
ALICE = "SCRAM-SHA-256=[name=alice,password=secret]"


class Formatting(NextApacheKafka):
    """Formats with a user and a level that is not the default."""

    format_options = (*NextApacheKafka.format_options, "-S", ALICE, "-f", "share.version=0")


def first_records(node: Broker) -> list[Message]:
    """Start a node, and return the records of the first transaction in its metadata log."""
    found: list[Message] = []

    def is_complete() -> bool:
        log = node.data / str(METADATA_PARTITION) / f"{0:020d}.log"
        found[:] = [
            decode_record(record.value or b"")
            for batch in iterate_batches(log.read_bytes())
            if not batch.is_control
            for record in iterate_records(batch)
        ]
        return any(isinstance(each, EndTransactionRecord) for each in found)

    with node:
        until(is_complete)
    end = next(n for n, each in enumerate(found) if isinstance(each, EndTransactionRecord))
    return found[:end]


@pytest.mark.parametrize("is_ours", [True, False])
@pytest.mark.slow("Apache Kafka starts")
def test_other_nodes_get_the_first_records(tmp_path: Path, is_ours: bool) -> None:
    """The records were only in the file of the first node, if Apache Kafka 4.4 had formatted it."""
    here, there = tmp_path / "here", tmp_path / "there"
    try:
        formatting = Formatting(directory=here)
        formatting.prepare()
        if is_ours:
            shutil.rmtree(formatting.data)
            with OdradekNode(directory=here):
                pass
            for each in (formatting.data / str(METADATA_PARTITION)).iterdir():
                if each.suffix != ".checkpoint":
                    each.unlink()
            (formatting.data / "bootstrap.checkpoint").unlink()
        shutil.copytree(here, there)
        ours = first_records(OdradekNode(directory=here))
        theirs = first_records(NextApacheKafka(directory=there))
    except Missing as reason:
        pytest.skip(str(reason))
    assert ours == theirs
    levels = {each.name for each in ours if isinstance(each, FeatureLevelRecord)}
    assert {"metadata.version", "group.version"} <= levels
    assert ("share.version" in levels) is is_ours
    assert any(isinstance(each, UserScramCredentialRecord) for each in ours) is not is_ours
