"""A standalone worker with a real broker: files into a topic and back, and the REST API."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.connect.lab import Lab, error

from odradek.client.admin.topics import NewTopic, create_topics
from odradek.client.cluster import Cluster
from odradek.connect import SinkConnector, SinkTask, SourceConnector, SourceRecord, SourceTask
from odradek.connect.standalone import read_connector
from odradek.core.connect import java_map
from odradek.core.connect.errors import ConfigError, ConnectError, DataError, RetriableError
from odradek.testing import Broker

SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"


@pytest.fixture(scope="module")
def broker():
    with Broker() as running:
        yield running


def test_a_file_goes_into_a_topic_and_back_and_goes_on_after_a_restart(broker, tmp_path: Path):
    source, sink = tmp_path / "in.txt", tmp_path / "out.txt"
    first = [f"ä {n}" for n in range(3_000)]
    source.write_text("\n".join(first) + "\nhalf", encoding="utf-8")
    reading = {"connector.class": "FileStreamSource", "file": str(source), "topic": "copied"}
    with Lab(broker.bootstrap_servers, tmp_path) as lab:
        assert lab.create("reader", reading).status == 201
        writing = {"connector.class": "FileStreamSink", "file": str(sink), "topics": "copied"}
        assert lab.create("writer", writing).status == 201
        lab.until(lambda: sink.exists() and len(sink.read_text().splitlines()) >= len(first))
        assert sink.read_text().splitlines() == first
        lab.until(lambda: lab.ask("GET", "/connectors/writer/offsets").body["offsets"] != [])
    stored = java_map.load((tmp_path / "offsets").read_bytes())
    size = len(source.read_bytes()) - len("half")
    key = f'["reader",{{"filename":"{source}"}}]'.encode()
    assert stored == {key: b'{"position":%d}' % size}
    with source.open("a") as file:
        file.write(" and half\r\nlast\n")
    with Lab(broker.bootstrap_servers, tmp_path) as lab:
        lab.create("reader", reading)
        lab.create("writer", writing)
        lab.until(lambda: len(sink.read_text().splitlines()) >= len(first) + 2)
    assert sink.read_text().splitlines() == [*first, "half and half", "last"]


def test_the_rest_api_answers_as_apache_kafka_does(broker, tmp_path: Path):
    source = tmp_path / "lines"
    source.write_text("one\n")
    config = {"connector.class": SOURCE, "file": str(source), "topic": "rest", "tasks.max": 1}
    with Lab(broker.bootstrap_servers, tmp_path) as lab:
        assert lab.ask("GET", "/connectors/").body == []
        created = lab.create(" a ", config)
        shown = {**config, "tasks.max": "1", "name": "a"}
        info = {
            "name": "a",
            "config": shown,
            "tasks": [{"connector": "a", "task": 0}],
            "type": "source",
        }
        assert (created.status, created.body) == (201, info)
        assert created.location is not None
        assert created.location.endswith("/connectors/a")
        assert lab.create("a", config) == error(409, "Connector a already exists")
        assert lab.ask("GET", "/connectors/a").body == info
        assert lab.ask("PUT", "/connectors/a/config", config).status == 200
        assert lab.ask("PATCH", "/connectors/a/config", {"batch.size": "7"}).body["config"] == {
            **shown,
            "batch.size": "7",
        }
        lab.until(lambda: lab.states("a") == ("RUNNING", ["RUNNING"]))
        lab.until(
            lambda: lab.ask("GET", "/connectors/a/topics").body == {"a": {"topics": ["rest"]}}
        )
        assert lab.ask("PUT", "/connectors/a/topics/reset").status == 202
        assert lab.ask("GET", "/connectors/a/topics").body == {"a": {"topics": []}}
        assert lab.ask("PUT", "/connectors/a/pause").status == 202
        lab.until(lambda: lab.states("a") == ("PAUSED", ["PAUSED"]))
        assert lab.ask("PUT", "/connectors/a/resume").status == 202
        lab.until(lambda: lab.states("a") == ("RUNNING", ["RUNNING"]))
        assert lab.ask("POST", "/connectors/a/restart").status == 204
        assert lab.ask("POST", "/connectors/a/tasks/0/restart").status == 204
        restarted = lab.ask("POST", "/connectors/a/restart?includeTasks=true")
        assert restarted.status == 202
        assert [each["state"] for each in restarted.body["tasks"]] == ["RESTARTING"]
        where = [{"partition": {"filename": str(source)}, "offset": {"position": 0}}]
        refused = lab.ask("PATCH", "/connectors/a/offsets", {"offsets": where})
        assert refused.status == 400
        assert refused.body["message"].startswith("Connectors must be in the STOPPED state")
        assert lab.ask("PUT", "/connectors/a/stop").status == 204
        lab.until(lambda: lab.states("a") == ("STOPPED", []))
        altered = lab.ask("PATCH", "/connectors/a/offsets", {"offsets": where})
        assert altered.body == {
            "message": "The offsets for this connector have been altered successfully"
        }
        assert lab.ask("GET", "/connectors/a/offsets").body == {"offsets": where}
        assert lab.ask("DELETE", "/connectors/a/offsets").status == 200
        assert lab.ask("GET", "/connectors/a/offsets").body == {"offsets": []}
        assert lab.ask("DELETE", "/connectors/a").status == 204
        assert lab.ask("GET", "/connectors").body == []


def test_wrong_requests_get_the_original_s_errors(broker, tmp_path: Path):
    with Lab(broker.bootstrap_servers, tmp_path) as lab:
        for method, path, message in (
            ("GET", "/nothing", "HTTP 404 Not Found"),
            ("GET", "/connectors/x", "Connector x not found"),
            ("GET", "/connectors/x/config", "Connector x not found"),
            ("GET", "/connectors/x/tasks", "Connector x not found"),
            ("GET", "/connectors/x/status", "No status found for connector x"),
            ("GET", "/connectors/x/tasks/0/status", "No status found for task x-0"),
            ("DELETE", "/connectors/x", "Connector x not found"),
            ("PUT", "/connectors/x/pause", "Unknown connector x"),
            ("POST", "/connectors/x/restart?onlyFailed=true", "Unknown connector: x"),
            ("GET", "/connector-plugins/x/config", "Unknown plugin x."),
            ("GET", "/admin/loggers/no.such", "Logger no.such not found."),
        ):
            assert lab.ask(method, path) == error(404, message)
        assert lab.ask("POST", "/health") == error(405, "HTTP 405 Method Not Allowed")
        other = lab.ask("PUT", "/connectors/x/config", {"name": "y"})
        assert other == error(
            400,
            "Connector name configuration (y) doesn't match connector name in the URL (x)",
        )
        bad = lab.create("x", {"connector.class": "FileStreamSink", "tasks.max": "dog"})
        assert bad.status == 400
        assert bad.body["message"].startswith(
            "Connector configuration is invalid and contains the following 4 error(s):\n"
            "Invalid value dog for configuration tasks.max: Not a number of type INT\n"
        )
        unknown = lab.create("x", {"connector.class": "FileStreamSunk"})
        assert "Do you mean FileStreamSink?" in unknown.body["message"]
        assert lab.create("", {"connector.class": "FileStreamSink", "topics": "t"}).status == 400


class _Poison(SinkTask):
    """Refuses some records, and writes the others to a list."""

    put_records: list[str] = []  # noqa: RUF012 - of the only instance
    failed = 0

    def put(self, records):
        for each in records:
            if each.value == "report":
                self.context.errant_record_reporter.report(each, DataError("reported"))
            elif each.value == "later" and type(self).failed < 1:
                type(self).failed += 1
                raise RetriableError("later")
        type(self).put_records += [each.value for each in records]


class PoisonSink(SinkConnector):
    task_class = _Poison

    def start(self, config):
        self._config = config

    def task_configs(self, max_tasks):
        return [self._config]


def test_records_that_fail_come_again_or_become_dead_letters(broker, tmp_path: Path):
    source, dead = tmp_path / "in.txt", tmp_path / "dead.txt"
    source.write_text('"a"\nno json\n"report"\n"later"\n')
    sink = {
        "connector.class": f"{PoisonSink.__module__}.PoisonSink",
        "topics": "poison",
        "value.converter": "JsonConverter",
        "value.converter.schemas.enable": "false",
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": "dead",
        "errors.deadletterqueue.topic.replication.factor": "1",
    }
    with Lab(broker.bootstrap_servers, tmp_path, PoisonSink) as lab:
        reading = {"connector.class": "FileStreamSource", "file": str(source), "topic": "poison"}
        lab.create("reader", reading)
        assert lab.create("poison", sink).status == 201
        burying = {"connector.class": "FileStreamSink", "file": str(dead), "topics": "dead"}
        lab.create("undertaker", burying)
        lab.until(lambda: dead.exists() and len(dead.read_text().splitlines()) >= 2)
        assert sorted(dead.read_text().splitlines()) == ['"report"', "no json"]
        lab.until(lambda: "later" in _Poison.put_records)
        assert _Poison.put_records == ["a", "report", "later"]


class _Broken(SourceTask):
    starts = 0

    def start(self, config):
        type(self).starts += 1

    def poll(self):
        if self.starts < 3:
            raise ValueError("out of order")
        return [
            SourceRecord(topic="mended", value="x", source_partition={}, source_offset={"n": 1})
        ]


class BrokenSource(SourceConnector):
    task_class = _Broken

    def task_configs(self, max_tasks):
        return [{}]


def test_a_failed_task_starts_again_within_its_budget(broker, tmp_path: Path):
    config = {"connector.class": f"{BrokenSource.__module__}.BrokenSource"}
    with Lab(broker.bootstrap_servers, tmp_path, BrokenSource) as lab:
        lab.create("broken", config)
        lab.until(lambda: lab.states("broken") == ("RUNNING", ["FAILED"]))
        trace = lab.ask("GET", "/connectors/broken/tasks/0/status").body["trace"]
        assert "ValueError: out of order" in trace
    policy = {"restart_policy_budget": "5", "restart_policy_pause_ms": "10"}
    with Lab(broker.bootstrap_servers, tmp_path, BrokenSource, **policy) as lab:
        lab.create("broken", config)
        lab.until(lambda: lab.states("broken") == ("RUNNING", ["RUNNING"]) and _Broken.starts >= 3)


def test_settings_that_are_wrong_are_named(broker, tmp_path: Path):
    with pytest.raises(ConfigError, match="Not a number of type LONG"):
        Lab(broker.bootstrap_servers, tmp_path, offset_flush_interval_ms="x")._client.close()
    (tmp_path / "offsets").write_bytes(b"no map")
    with pytest.raises(ConnectError, match=r"offset\.storage\.file\.filename"):
        Lab(broker.bootstrap_servers, tmp_path)


def test_a_setting_without_effect_is_said(broker, tmp_path: Path, caplog: pytest.LogCaptureFixture):
    with Lab(broker.bootstrap_servers, tmp_path, plugin_path="/usr/share/java"):
        assert "the setting plugin.path has no effect" in caplog.text


PRINCIPAL = "org.apache.kafka.connect.connector.policy.PrincipalConnectorClientConfigOverridePolicy"


@pytest.mark.parametrize(
    ("policy", "name", "is_allowed"),
    [
        ("All", "bootstrap.servers", True),
        ("None", "sasl.mechanism", False),
        ("Principal", "sasl.mechanism", True),
        (PRINCIPAL, "security.protocol", True),
        ("Principal", "sasl.login.callback.handler.class", False),
        ("Allowlist", "bootstrap.servers", False),
    ],
)
def test_what_a_connector_may_override(broker, tmp_path: Path, policy, name, is_allowed):
    overridden = f"producer.override.{name}"
    config = {"connector.class": SOURCE, "file": "x", "topic": "t", "name": "a", overridden: "x"}
    settings = {"connector_client_config_override_policy": policy}
    with Lab(broker.bootstrap_servers, tmp_path, **settings) as lab:
        path = "/connector-plugins/FileStreamSource/config/validate"
        found = lab.ask("PUT", path, config).body["configs"]
    errors = [error for each in found for error in each["value"]["errors"]]
    assert any("does not allow" in error for error in errors) != is_allowed


def test_connector_files_are_properties_or_json(tmp_path: Path):
    (tmp_path / "a.properties").write_text("name=a\nx.y=1\n")
    assert read_connector(tmp_path / "a.properties") == ("a", {"name": "a", "x.y": "1"}, None)
    (tmp_path / "b.json").write_text('{"name": "b", "config": {"n": 1}, "initial_state": "paused"}')
    assert read_connector(tmp_path / "b.json") == ("b", {"name": "b", "n": "1"}, "PAUSED")
    (tmp_path / "c.json").write_text('{"name": "c", "n": true}')
    assert read_connector(tmp_path / "c.json") == ("c", {"name": "c", "n": "true"}, None)


def test_basic_authentication(broker, tmp_path: Path):
    with Lab(broker.bootstrap_servers, tmp_path, rest_basic_auth_users="ann:secret") as lab:
        assert lab.ask("GET", "/connectors").status == 401
        lab._client.auth = ("ann", "wrong")
        assert lab.ask("GET", "/connectors").status == 401
        lab._client.auth = ("ann", "secret")
        assert lab.ask("GET", "/connectors").body == []


def test_variables_are_resolved_but_neither_stored_nor_shown(broker, tmp_path: Path):
    source, secrets = tmp_path / "in", tmp_path / "secrets.properties"
    source.write_text("x\n")
    secrets.write_text(f"topic=hidden-topic\nfile={source}\n")
    config = {
        "connector.class": "FileStreamSource",
        "file": f"${{file:{secrets}:file}}",
        "topic": f"${{file:{secrets}:topic}}",
    }
    providers = {
        "config_providers": "file",
        "config_providers_file_class": "org.apache.kafka.common.config.provider.FileConfigProvider",
    }
    with Lab(broker.bootstrap_servers, tmp_path, **providers) as lab:
        assert lab.create("secret", config).body["config"] == {**config, "name": "secret"}
        lab.until(
            lambda: lab.ask("GET", "/connectors/secret/topics").body["secret"]["topics"] != []
        )
        assert lab.ask("GET", "/connectors/secret/topics").body["secret"]["topics"] == [
            "hidden-topic"
        ]
        task = lab.ask("GET", "/connectors/secret/tasks").body[0]["config"]
        assert (task["file"], task["topic"]) == (config["file"], config["topic"])
        wrong = lab.create("wrong", {**config, "topic": f"${{file:{secrets}:nothing}}"})
        assert wrong.status == 500
        assert "the file has no such key" in wrong.body["message"]


def test_numbers_for_prometheus(broker, tmp_path: Path):
    source = tmp_path / "in"
    source.write_text("1\n2\n3\n")
    config = {"connector.class": "FileStreamSource", "file": str(source), "topic": "numbers"}
    with Lab(broker.bootstrap_servers, tmp_path) as lab:
        lab.create("counted", config)
        wanted = 'source_record_write_total{connector="counted",task="0"} 3.0'
        lab.until(lambda: wanted in lab.text("/metrics"))
        assert 'connector_health{connector="counted",health="HEALTHY"} 1.0' in lab.text("/metrics")
        worker = "kafka_connect_worker_metrics_connector"
        task = "kafka_connect_connector_task_metrics_status"
        assert lab.ask("PUT", "/connectors/counted/pause").status == 202
        paused = f'{task}{{connector="counted",status="paused",task="0"}} 1.0'
        lab.until(lambda: paused in lab.text("/metrics"))
        shown = lab.text("/metrics").splitlines()
        assert f"{worker}_count 1.0" in shown
        for state, count in (("total", 1), ("paused", 1), ("running", 0), ("failed", 0)):
            assert f'{worker}_{state}_task_count{{connector="counted"}} {count}.0' in shown
        assert any("connector_metrics_status{" in e and 'status="paused"' in e for e in shown)


def test_an_offset_that_cannot_be_deleted_is_an_error(broker: Broker, tmp_path: Path) -> None:
    bootstrap = broker.bootstrap_servers
    entries = [
        {"partition": {"kafka_topic": topic, "kafka_partition": 0}, "offset": offset}
        for topic, offset in (("reset", {"kafka_offset": 0}), ("not-there", None))
    ]
    config = {"connector.class": "FileStreamSink", "topics": "reset", "file": "/dev/null"}
    with Cluster(bootstrap) as cluster:
        create_topics(cluster, [NewTopic("reset", 1, 1)])
    with Lab(bootstrap, tmp_path) as lab:
        body = {"name": "reset", "config": config, "initial_state": "STOPPED"}
        assert lab.ask("POST", "/connectors", body).status == 201
        got = lab.ask("PATCH", "/connectors/reset/offsets", {"offsets": entries})
        assert got.status == 500
        assert "Failed to alter consumer group offsets" in got.body["message"]
