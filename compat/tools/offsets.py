"""GetOffsetShell, DeleteRecordsCommand, LogDirsCommand: where logs begin, end and lie."""

from __future__ import annotations

import json

from compat.scenarios.stage import equal, holds
from compat.tools.workbench import Workbench, check

RECORD_SIZES = 1000


def _filled(bench: Workbench, topic: str) -> str:
    """A topic of one partition with ten records, one batch each."""
    bench.topic(topic)
    words = ["--topic", topic, "--num-records", "10", "--record-size", str(RECORD_SIZES)]
    bench.tool(
        "ProducerPerformance", *words, "--throughput", "-1", "--command-property", "batch.size=0"
    )
    return topic


@check("GetOffsetShell")
def get_offset_shell(bench: Workbench) -> None:
    """Latest, earliest, by time, of the latest timestamp; by partition and pattern."""
    topic = _filled(bench, "tool-offsets")

    def offsets(*words: str) -> list[str]:
        return bench.tool("GetOffsetShell", *words).lines()

    equal(offsets("--topic", topic), [f"{topic}:0:10"], "latest")
    equal(offsets("--topic", topic, "--time", "-1"), [f"{topic}:0:10"], "latest, as a number")
    equal(offsets("--topic", topic, "--time", "earliest"), [f"{topic}:0:0"], "earliest")
    equal(offsets("--topic", topic, "--time", "0"), [f"{topic}:0:0"], "since 1970")
    equal(offsets("--topic", topic, "--time", "99999999999999"), [], "far in the future")
    (newest,) = offsets("--topic", topic, "--time", "max-timestamp")
    holds(0 <= int(newest.rsplit(":", 1)[1]) <= 9, f"offset of the latest timestamp: {newest}")
    named = offsets("--topic-partitions", f"{topic}:0", "--exclude-internal-topics")
    equal(named, [f"{topic}:0:10"], "by partition")
    nothing = bench.try_tool("GetOffsetShell", "--topic", "tool-no-such-topic")
    equal(nothing.code, 1, "exit code for a topic that is not there")


@check("DeleteRecordsCommand")
def delete_records(bench: Workbench) -> None:
    """Records before an offset go; beyond the end it is an error."""
    topic = _filled(bench, "tool-delete-records")

    def delete(offset: int) -> str:
        partitions = [{"topic": topic, "partition": 0, "offset": offset}]
        path = bench.file("delete.json", json.dumps({"partitions": partitions, "version": 1}))
        return bench.tool("DeleteRecordsCommand", "--offset-json-file", path).out

    holds(f"{topic}-0\tlow_watermark: 4" in delete(4), "the low watermark is not told as 4")
    (first,) = bench.tool("GetOffsetShell", "--topic", topic, "--time", "earliest").lines()
    equal(first, f"{topic}:0:4", "earliest offset")
    holds("OffsetOutOfRangeException" in delete(11), "an offset beyond the end is not refused")
    holds(f"{topic}-0\tlow_watermark: 10" in delete(-1), "-1 does not delete all")


@check("LogDirsCommand")
def log_dirs(bench: Workbench) -> None:
    """Directories, partitions and their sizes."""
    topic = _filled(bench, "tool-log-dirs")
    output = bench.tool("LogDirsCommand", "--describe", "--topic-list", topic)
    told = json.loads(output.find(r"^\{.*\}$")[0])
    (broker,) = told["brokers"]
    equal(broker["broker"], bench.broker_id(), "broker")
    partitions = [each for log_dir in broker["logDirs"] for each in log_dir["partitions"]]
    equal([each["partition"] for each in partitions], [f"{topic}-0"], "partitions")
    holds(partitions[0]["size"] > 10 * RECORD_SIZES, f"size: {partitions[0]['size']} bytes")
    equal(partitions[0]["offsetLag"], 0, "lag")


@check("DumpLogSegments")
def dump_log_segments(bench: Workbench) -> None:
    """Apache Kafka's own reader of log files finds nothing wrong with the broker's."""
    topic = _filled(bench, "tool-dump")
    directory = bench.broker.data / f"{topic}-0"
    log = directory / "00000000000000000000.log"

    def dump(*words: str) -> str:
        return bench.tool("DumpLogSegments", *words, bootstrap=False).out

    out = dump("--files", str(log), "--deep-iteration", "--print-data-log")
    equal(out.count("| offset: "), 10, "records in the dump")
    equal(out.count("isvalid: true"), 10, "valid batches in the dump")
    for suffix in (".index", ".timeindex"):
        text = dump("--files", str(log.with_suffix(suffix)), "--verify-index-only")
        holds("Found" not in text and "mismatch" not in text.lower(), f"{suffix}: {text[-300:]}")
