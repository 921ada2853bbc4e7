"""The console producer and consumer."""

from __future__ import annotations

from compat.scenarios.stage import equal
from compat.tools.workbench import Workbench, check


@check("console clients")
def console(bench: Workbench) -> None:
    """Keys, values, headers, offsets and partitions pass through the two console tools."""
    topic = bench.topic("tool-console", 1)
    lines = "h1:a,h2:b\tkey 1\tvalue 1\nNULL\tkey 2\tvalue 2\n"
    properties = ("parse.key=true", "parse.headers=true", "null.marker=NULL")
    words = [word for each in properties for word in ("--reader-property", each)]
    bench.tool(
        "ConsoleProducer", "--topic", topic, *words, "--compression-codec", "lz4", given=lines
    )
    shown = ("key", "headers", "offset", "partition", "timestamp")
    words = [word for each in shown for word in ("--formatter-property", f"print.{each}=true")]
    read = bench.tool(
        "consumer.ConsoleConsumer",
        *("--topic", topic, "--from-beginning", "--max-messages", "2", "--timeout-ms", "20000"),
        *words,
    )
    read.says(
        r"^CreateTime:\d{13}\tPartition:0\tOffset:0\th1:a,h2:b\tkey 1\tvalue 1$",
        r"^CreateTime:\d{13}\tPartition:0\tOffset:1\tNO_HEADERS\tkey 2\tvalue 2$",
    )
    last = ["--topic", topic, "--partition", "0", "--offset", "1", "--max-messages", "1"]
    equal(bench.tool("consumer.ConsoleConsumer", *last).lines(), ["value 2"], "from offset 1")


@check("console consumer of offsets")
def offsets_formatter(bench: Workbench) -> None:
    """The formatters of Apache Kafka read what the broker wrote to __consumer_offsets."""
    topic, group = bench.topic("tool-formatted"), "tool-group-formatted"
    bench.produce(topic, "key:value")
    words = ["--topic", topic, "--group", group, "--from-beginning", "--max-messages", "1"]
    bench.tool("consumer.ConsoleConsumer", *words)
    bench.reads_log("__consumer_offsets", "OffsetsMessageFormatter").says(
        rf'"group":"{group}","topic":"{topic}","partition":0.*"offset":1'
    )
    bench.reads_log("__consumer_offsets", "GroupMetadataMessageFormatter").says(
        rf'"group":"{group}".*"protocolType":"consumer".*"protocol":"range"'
    )
