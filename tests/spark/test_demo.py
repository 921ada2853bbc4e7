"""The demo: its data, its events, its reconciliation, and a kill during the run."""

from __future__ import annotations

import dataclasses
import os
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from confluent_kafka import Producer
from tests.support.child import Child
from tests.support.run_seed import run_seed

from odradek.demo import DemoOptions, data, pipeline, producing, run_state
from odradek.demo.picture import draw
from odradek.demo.pipeline import Places
from odradek.demo.reconciliation import canonical, longest_waits, reconcile
from odradek.demo.screen import Console, Screen
from odradek.demo.steps import run
from odradek.demo.topics import Topics
from odradek.pipelines import broker

FLIGHTS = 3_000
INTERRUPTED_RUNS = int(os.environ.get("ODRADEK_DEMO_INTERRUPTIONS", "1"))
PATIENCE_SECONDS = 250
"""For a step of the demo on a busy machine; it ends a test that hangs."""


@pytest.fixture(scope="module")
def tables():
    return data.load(FLIGHTS)


@pytest.fixture(scope="module")
def year():
    return data.load()


def test_the_year_is_whole_and_in_the_order_in_which_it_became_known(year):
    assert (len(year.flights), len(year.weather), len(year.planes)) == (336_776, 26_115, 3_322)
    assert year.flights["known_at"].is_monotonic_increasing
    assert not year.flights["event_time"].is_monotonic_increasing
    lag = year.flights["known_at"] - year.flights["event_time"]
    assert pipeline.LATENESS == "2 days"
    assert lag.dt.total_seconds().max() < timedelta(days=1).total_seconds(), "a half of it"
    assert year.flights["event_time"].max() < data.YEAR_END
    assert (year.weather["wind_speed"] > data.WIND_SPEED_MAX).sum() == 1
    assert not year.weather.duplicated(["origin", "hour"]).any()


def test_the_canonical_answer_counts_every_flight_once(year):
    found = canonical(year)
    assert found["flights"].sum() == 336_776
    assert found["cancelled"].sum() == 8_255  # as the package's documentation counts them
    assert found["delay_minutes"].sum() == year.flights["dep_delay"].sum()
    assert set(found["weather"]) == {"fair", "wind", "fog", "rain", "snow and ice", "no report"}


def test_events_end_with_the_end_of_the_year(tables):
    for events in (data.flight_events(tables.flights), data.weather_events(tables.weather)):
        assert len(events.keys) == len(events.values) == len(events.timestamps_ms)
        assert events.keys[-1] == data.CLOCK_KEY
        assert events.timestamps_ms == sorted(events.timestamps_ms)


@pytest.fixture(scope="module")
def places(servers, tables, tmp_path_factory):
    """Topics with the events in them, produced in two goes, as after being killed."""
    topics = Topics(f"demo-{os.getpid()}.")
    producing.create_topics(servers, topics)
    producing.create_topics(servers, topics)  # they may be there already
    flights = data.flight_events(tables.flights)
    part = dataclasses.replace(
        flights,
        keys=flights.keys[:1234],
        values=flights.values[:1234],
        timestamps_ms=flights.timestamps_ms[:1234],
    )
    reference = {topics.planes: "tailnum", topics.airports: "faa", topics.airlines: "carrier"}
    told = []
    with producing.EventProducer(servers, topics) as producer:
        assert producer.produce(topics.flights, part, told.append) == 1234
        assert producer.produce(topics.flights, flights, told.append) == FLIGHTS + 1 - 1234
        assert producer.produce(topics.flights, flights, told.append) == 0
        assert sum(told) == 1234 + 2 * (FLIGHTS + 1)
        for topic, key in reference.items():
            table = getattr(tables, topic.removeprefix(topics.prefix))
            producer.produce(topic, data.reference_events(table, key), told.append)
        producer.produce(topics.weather, data.weather_events(tables.weather), told.append)
    return Places(servers, topics, tmp_path_factory.mktemp("demo"))


@pytest.mark.spark
@pytest.mark.slow("the pipeline of the demo with a year of flights")
def test_the_report_is_exact_and_shows_a_difference(
    spark, servers, places, tables, tmp_path, monkeypatch
):
    monkeypatch.setattr(pipeline, "BATCHES_MIN", 3)
    reports = len(tables.weather) + 1
    pipeline.start_delays(spark, places, FLIGHTS + 1, reports).awaitTermination()
    records = pipeline.read(spark, places, places.topics.delays).limit(5).collect()
    producer = Producer({"bootstrap.servers": servers})
    for record in records:  # written again, as after a restart
        producer.produce(places.topics.delays, record.value, record.key)
    producer.flush(30)
    pipeline.start_parquet(spark, places).awaitTermination()
    report = reconcile(spark, places, tables, late=0)
    assert report.exact
    assert [row.count for row in report.groups["results"]][1] == 5
    assert report.results["flights"].sum() == FLIGHTS
    assert longest_waits(spark, places, report.routes)["airline"]
    draw(report.results, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")

    producer.produce(places.topics.delays, records[0].value.replace(b"2013", b"2012"), "other")
    producer.flush(30)
    wrong = reconcile(spark, places, tables, late=1)
    assert not wrong.exact
    faults = [line.name.strip() for g in wrong.groups.values() for line in g if line.good is False]
    assert faults == ["sum", "rows of Parquet that differ", "rows of pandas that differ"]
    console = Console(width=120, record=True, file=open(os.devnull, "w"))  # noqa: SIM115
    Screen(console).report(wrong)
    console.file.close()
    assert "differs" in console.export_text()


def test_an_unfinished_run_continues_and_a_new_one_removes_its_files(tmp_path):
    assert run_state.load(tmp_path) is None
    state = run_state.begin(tmp_path, None, 100)
    assert run_state.load(tmp_path) == state
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "mine.txt").write_text("not the demo's")
    assert run_state.begin(tmp_path, "b:1", None).prefix.startswith("nyc-")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["mine.txt", "run.json"]
    (tmp_path / "run.json").write_text("{")
    assert run_state.load(tmp_path) is None


def test_the_broker_ends_with_the_demo_that_is_killed(tmp_path):
    starts = (
        "import sys, time; from pathlib import Path; from odradek.pipelines.broker import start\n"
    )
    starts += "print(start(Path(sys.argv[1])).servers, flush=True); time.sleep(100)"
    with Child([sys.executable, "-c", starts, tmp_path], talks=True) as killed:
        servers = killed.line()
        broker.check(servers)
    broker.wait_until_free(tmp_path)
    with pytest.raises(broker.BrokerNotStartedError):
        broker.check(servers)
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()


def demo(output: Path) -> Child:
    program = Path(sys.executable).with_name("odradek")
    return Child([program, "demo", "--flights", str(FLIGHTS), "--output", output])


def kill(running: Child) -> None:
    running.kill()
    assert "Reconciling" not in running.output


def terminate(running: Child) -> None:
    """Has the same effect as Ctrl-C."""
    assert running.terminate(PATIENCE_SECONDS) == 130
    said = running.output
    assert "Traceback" not in said
    assert "ERROR" not in said
    assert "same command again to continue" in said


INTERRUPTIONS = [[kill, terminate][(run_seed() + number) % 2] for number in range(INTERRUPTED_RUNS)]


@pytest.mark.spark
@pytest.mark.cluster
@pytest.mark.long
@pytest.mark.timeout((2 + INTERRUPTED_RUNS) * PATIENCE_SECONDS)
def test_interrupted_in_the_middle_and_run_again_it_is_still_exact(tmp_path):
    """Which way the run is interrupted depends on the seed of the test run."""
    output = tmp_path / "out"
    for number, interrupt in enumerate(INTERRUPTIONS, 1):
        with demo(output) as running:
            batch = output / "checkpoints" / "delays" / "offsets" / str(number)
            running.until(batch.exists, PATIENCE_SECONDS)
            interrupt(running)

    with demo(output) as finished:
        code, said = finished.wait(PATIENCE_SECONDS), finished.output
    assert code == 0, said
    assert "Continuing the unfinished run" in said
    assert "0 events into 5 topics" in said
    assert "Every record is accounted for" in said
    assert (output / "delays.png").stat().st_size > 50_000


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"bootstrap_servers": "127.0.0.1:1"}, "no broker responds at 127.0.0.1:1"),
        ({"bootstrap_servers": "localhost:x"}, "'x' is not a port"),
        ({"output": Path(__file__) / "x"}, "Not a directory; see --output"),
    ],
)
def test_failures_have_a_clear_message(tmp_path, capsys, options, said):
    assert run(DemoOptions(**{"output": tmp_path, "flights": 10, **options})) == 1
    assert said in " ".join(capsys.readouterr().out.split())
