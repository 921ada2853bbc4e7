"""What Prometheus reads from a node."""

from __future__ import annotations

import gzip
import re
import socket
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest
from prometheus_client.parser import text_string_to_metric_families

from odradek.client.cluster import Cluster
from odradek.client.producer import Producer
from odradek.node.metrics import sections
from odradek.testing import Broker, BrokerError

METRICS = {"odradek.metrics.port": 0}


def scrape(broker: Broker) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """All samples by name and labels."""
    url = f"http://127.0.0.1:{broker.node.metrics_port()}/metrics"
    with urllib.request.urlopen(url, timeout=20) as answer:
        text = answer.read().decode()
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_what_was_done_is_counted() -> None:
    with Broker(topics={"orders": 2}, settings=METRICS) as broker:
        with Cluster(broker.bootstrap_servers) as cluster, Producer(cluster) as producer:
            for partition in (0, 1, 1):
                producer.send("orders", b"v", partition=partition)
        found = scrape(broker)
    of = {"topic": "orders"}.items()
    assert found["kafka_server_brokertopicmetrics_messagesin_total", frozenset(of)] == 3
    of = {"topic": "orders", "partition": "1"}.items()
    assert found["kafka_log_log_logendoffset", frozenset(of)] == 2
    produce = frozenset({"request": "Produce"}.items())
    by_version = {
        labels: value
        for (name, labels), value in found.items()
        if name == "kafka_network_requestmetrics_requests_total" and produce <= labels
    }
    assert (
        sum(by_version.values()) == found["kafka_network_requestmetrics_totaltimems_count", produce]
    )
    successful = frozenset({"request": "Produce", "error": "NONE"}.items())
    assert found["kafka_network_requestmetrics_errors_total", successful] >= 1
    assert found["kafka_network_requestmetrics_totaltimems_count", produce] >= 1
    none = frozenset[tuple[str, str]]()
    assert found["kafka_controller_kafkacontroller_activecontrollercount", none] == 1
    assert found["kafka_server_replicamanager_underreplicatedpartitions", none] == 0
    assert found["kafka_controller_kafkacontroller_globaltopiccount", none] >= 1
    assert found["kafka_server_fetchsessioncache_incrementalfetchsessionevictions_total", none] == 0


def test_compaction_is_watched() -> None:
    with Broker(settings={**METRICS, "log.cleaner.backoff.ms": 10}) as broker:
        first = scrape(broker)
        data = frozenset({"logDirectory": broker.data}.items())
    none = frozenset[tuple[str, str]]()
    assert first["kafka_log_logcleanermanager_uncleanable_partitions_count", data] == 0
    assert first["kafka_log_logcleanermanager_max_dirty_percent", none] == 0
    assert first["kafka_log_logcleanermanager_time_since_last_run_ms", none] >= 0
    assert first["kafka_log_logcleaner_max_clean_time_secs", none] == 0
    assert first["odradek_log_cleaner_rounds_total", none] == 0


def test_names_are_written_once_and_in_prometheus_way() -> None:
    with Broker(topics={"orders": 1}, settings=METRICS) as broker:
        names = [name for name, _ in scrape(broker)]
    assert not [name for name in names if name.endswith("_total_total")]
    assert not [name for name in names if name != name.lower()]


def test_a_port_in_use_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(BrokerError, match=rf"metrics://127.0.0.1:{port}.*--metrics-port"):
            Broker(settings={"odradek.metrics.port": port}).start()


def test_every_section_is_asked() -> None:
    """A function of the module that yields families and is not called shows nothing."""
    package = Path(sections.__file__).parent
    pattern = r"^def ([a-z]\w+)\(_?node: \w+Sources\) -> Iterator\[Metric\]"
    found = {
        f"{each.stem}.{name}"
        for each in package.glob("*.py")
        for name in re.findall(pattern, each.read_text("utf-8"), re.MULTILINE)
    }
    asked = (*sections.OF_NODES, *sections.OF_BROKERS)
    assert {f"{each.__module__.rpartition('.')[2]}.{each.__name__}" for each in asked} == found


def test_what_changes_while_it_is_read_is_read_again() -> None:
    with Broker(topics={"orders": 1}, settings=METRICS) as broker:
        groups = broker.node.broker.coordinators.groups
        offsets, calls = groups.committed_offsets, []

        def changing() -> Iterator[tuple[str, str, int, int]]:
            calls.append(1)
            if len(calls) < 3:
                raise RuntimeError("dictionary changed size during iteration")
            yield from offsets()

        with mock.patch.object(groups, "committed_offsets", changing):
            scrape(broker)
    assert len(calls) == 3


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"200"),
        (b"POST /metrics HTTP/1.1\r\n\r\n", b"405"),
        (b"nonsense\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nX: " + b"x" * 17_000, b"431"),
    ],
)
def test_what_is_not_a_scrape_is_refused(request_bytes: bytes, status: bytes) -> None:
    with Broker(settings=METRICS) as broker:
        port = broker.node.metrics_port()
        with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
            connection.sendall(request_bytes)
            assert connection.recv(100).startswith(b"HTTP/1.1 " + status)
        assert scrape(broker)


def test_a_scrape_may_be_compressed_and_select_names() -> None:
    with Broker(settings=METRICS) as broker:
        name = "kafka_server_replicamanager_partitioncount"
        request = urllib.request.Request(
            f"http://127.0.0.1:{broker.node.metrics_port()}/metrics?name[]={name}",
            headers={"Accept-Encoding": "gzip"},
        )
        with urllib.request.urlopen(request, timeout=20) as answer:
            assert answer.headers["Content-Encoding"] == "gzip"
            text = gzip.decompress(answer.read()).decode()
    assert {line.split()[0] for line in text.splitlines() if line[:1] != "#"} == {name}


def test_scrapes_that_nobody_finishes_do_not_keep_others_out_for_ever() -> None:
    with Broker(settings=METRICS) as broker:
        port = broker.node.metrics_port()
        stuck = [socket.create_connection(("127.0.0.1", port)) for _ in range(16)]
        for each in stuck:
            each.close()
        assert scrape(broker)
