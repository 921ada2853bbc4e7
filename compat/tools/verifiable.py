"""VerifiableProducer and VerifiableConsumer, as Apache Kafka's system tests run them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable
from typing import Any

from compat.scenarios.stage import equal, holds
from compat.tools.workbench import Workbench, check

RECORDS = 2000
PATIENCE_SECONDS = 60


def _events(process: subprocess.Popen[str]) -> list[dict[str, Any]]:
    """All events until the process ends, which it does by itself."""
    try:
        out, _ = process.communicate(timeout=PATIENCE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        out, _ = process.communicate()
    return [json.loads(line) for line in out.splitlines() if line.startswith("{")]


def _named(events: Iterable[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [event for event in events if event["name"] == name]


@check("VerifiableProducer and VerifiableConsumer")
def verifiable(bench: Workbench) -> None:
    """Every value that was acknowledged is consumed once, in order, and committed."""
    topic = bench.topic("tool-verifiable", 2)
    words = ["--topic", topic, "--max-messages", str(RECORDS), "--throughput", "-1"]
    produced = _events(bench.start("VerifiableProducer", *words))
    sent = _named(produced, "producer_send_success")
    equal(len(sent), RECORDS, "acknowledged records")
    (summary,) = _named(produced, "tool_data")
    equal((summary["sent"], summary["acked"]), (RECORDS, RECORDS), "sent and acknowledged")
    words = ["--topic", topic, "--group-id", "tool-verifiable", "--max-messages", str(RECORDS)]
    consumed = _events(bench.start("VerifiableConsumer", *words, "--verbose"))
    holds(bool(_named(consumed, "partitions_assigned")), "no partitions were assigned")
    data = _named(consumed, "record_data")
    seen = [(each["partition"], each["offset"], each["value"]) for each in data]
    wrote = [(each["partition"], each["offset"], each["value"]) for each in sent]
    equal(sorted(seen), sorted(wrote), "records consumed")
    for partition in (0, 1):
        offsets = [offset for index, offset, _ in seen if index == partition]
        equal(offsets, sorted(offsets), f"order of the offsets of partition {partition}")
    holds(
        any(event["success"] for event in _named(consumed, "offsets_committed")),
        "no offsets were committed",
    )
