"""Requests to a worker, whose answers are compared with those of Apache Kafka's worker."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

RECORDED = Path(__file__).with_name("java_answers.json")
"""The answers of a worker of Apache Kafka 4.3; `tests/oracle/test_java_connect_rest.py` writes them."""

SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
SINK = "org.apache.kafka.connect.file.FileStreamSinkConnector"
FILE = "/nothing/here"
GOOD: dict[str, Any] = {"connector.class": SOURCE, "file": FILE, "topic": "t"}
_TRANSFORM = "org.apache.kafka.connect.transforms."

Ask = tuple[str, str, Any]
Answer = list[Any]

MASKED = ("documentation", "version", "worker_id", "trace", "recommended_values", "task.class")
"""What differs by nature: texts of Odradek's own, versions, addresses, stack traces."""

DEVIATIONS = {
    ("GET", "/connectors?foo=1"): "the order of names is that of a hash table in Java",
    ("GET", "/connectors?expand=foo"): "the same",
    ("GET", "/connectors?expand=info"): "the same",
    ("PUT", "/connectors/zz/stop"): "Java's standalone worker answers 500; the distributed one 404",
    ("POST", "/connectors/zz/restart"): "Java fails with a NullPointerException",
    ("POST", "/connectors/zz/tasks/0/restart"): "Java starts a task that does not exist",
    ("POST", "/connectors/a/tasks/9/restart"): "the same",
    ("POST", "/connectors"): "see DEVIATING_BODIES",
    ("PUT", "/connector-plugins/FileStreamSink/config/validate"): "see DEVIATING_BODIES",
    ("PUT", "/connector-plugins/FileStreamSource/config/validate"): "see DEVIATING_BODIES",
}
DEVIATING_BODIES = {
    '{"name": "nope", "config": {"connector.class": "Nope"}}': "the list of classes is shown in another way",
    "{}": "Java answers 500 with the error 400 as its text",
}
"""Bodies of requests with another answer, and why."""


def _plugins() -> list[Ask]:
    listed = ["FileStreamSource", "FileStreamSink", "JsonConverter", "StringConverter", "Nope"]
    listed += ["RegexRouter", "ValueToKey", "TimestampRouter", "InsertHeader", "DropHeaders"]
    listed += ["Filter", "HasHeaderKey", "TopicNameMatches", "RecordIsTombstone"]
    listed += ["ByteArrayConverter", "LongConverter", "SimpleHeaderConverter"]
    parts = ["Cast", "ReplaceField", "MaskField", "InsertField", "TimestampConverter"]
    parts += ["HeaderFrom", "Flatten", "ExtractField", "SetSchemaMetadata", "HoistField"]
    listed += [f"{_TRANSFORM}{each}$Value" for each in parts]
    return [("GET", f"/connector-plugins/{each}/config", None) for each in listed]


def _offsets(partition: Any, offset: Any) -> dict[str, Any]:
    return {"offsets": [{"partition": partition, "offset": offset}]}


def script() -> list[Ask]:
    one = "/connectors/a"
    bad_sink = {
        "name": "z",
        "connector.class": "FileStreamSink",
        "topics": "a",
        "topics.regex": "b",
    }
    return [
        ("GET", "/connectors", None),
        ("GET", "/nope", None),
        ("POST", "/", None),
        ("DELETE", "/connectors", None),
        ("GET", "/connectors/x/nope", None),
        ("POST", "/connectors", {"name": "x", "config": {}}),
        ("POST", "/connectors", {"name": "nope", "config": {"connector.class": "Nope"}}),
        ("POST", "/connectors", {"name": "x", "config": {"connector.class": "FileStreamSink"}}),
        ("POST", "/connectors", {"name": "", "config": GOOD}),
        ("POST", "/connectors", {"config": GOOD}),
        ("POST", "/connectors", {"name": "x", "config": {**GOOD, "tasks.max": 0}}),
        ("POST", "/connectors", {"name": "x", "config": {**GOOD, "a": None}}),
        ("POST", "/connectors", {"name": " a ", "config": {**GOOD, "n": 1, "f": 1.5, "t": True}}),
        ("POST", "/connectors", {"name": "a", "config": GOOD}),
        ("POST", "/connectors", {"name": "p", "config": GOOD, "initial_state": "PAUSED"}),
        ("POST", "/connectors", {"name": "s", "config": GOOD, "initial_state": "stopped"}),
        *_reads_and_updates(one),
        *_offset_requests(one),
        *_plugins(),
        *_validations(bad_sink),
        ("DELETE", one, None),
        ("DELETE", "/connectors/b", None),
        ("GET", one, None),
        ("GET", "/health", None),
        ("PUT", "/connectors/p/stop", None),
        ("DELETE", "/connectors/p", None),
    ]


def _reads_and_updates(one: str) -> list[Ask]:
    return [
        *(("GET", one + each, None) for each in ("", "/", "/config", "/tasks", "/status")),
        ("GET", "/connectors/p/status", None),
        ("GET", "/connectors/s/status", None),
        *(("GET", f"{one}/tasks/{each}/status", None) for each in ("0", "7", "x")),
        ("GET", "/connectors?expand=info", None),
        ("GET", "/connectors?expand=foo", None),
        ("GET", "/connectors?foo=1", None),
        ("PUT", one + "/config", {**GOOD, "batch.size": "5"}),
        ("PUT", "/connectors/b/config", GOOD),
        ("PUT", "/connectors/b/config", {"name": "c"}),
        ("PATCH", "/connectors/b/config", {"batch.size": "9", "topic": None}),
        ("PATCH", "/connectors/b/config", {"batch.size": "9"}),
        ("PATCH", "/connectors/zz/config", {"a": "b"}),
        *(("PUT", f"/connectors/zz/{each}", None) for each in ("pause", "stop", "resume")),
        ("DELETE", "/connectors/zz", None),
        ("POST", "/connectors/zz/restart", None),
        ("POST", "/connectors/zz/restart?includeTasks=true", None),
        ("POST", "/connectors/zz/tasks/0/restart", None),
    ]


def _offset_requests(one: str) -> list[Ask]:
    return [
        ("GET", "/connectors/zz/topics", None),
        ("GET", one + "/topics", None),
        ("PUT", "/connectors/zz/topics/reset", None),
        ("GET", "/connectors/zz/offsets", None),
        ("PATCH", "/connectors/zz/offsets", {"offsets": []}),
        ("PATCH", "/connectors/zz/offsets", {}),
        ("DELETE", "/connectors/zz/offsets", None),
        ("DELETE", one + "/offsets", None),
        ("PATCH", one + "/offsets", _offsets({"a": 1}, {"b": 2})),
        ("PUT", one + "/pause", None),
        ("GET", one + "/status", None),
        ("PUT", one + "/resume", None),
        ("PUT", one + "/stop", None),
        *(("GET", one + each, None) for each in ("/status", "", "/tasks")),
        ("PATCH", one + "/offsets", _offsets({"a": 1}, {"b": 2})),
        ("PATCH", one + "/offsets", _offsets({"filename": "f"}, {"position": -2})),
        ("PATCH", one + "/offsets", _offsets({"filename": "f"}, {"position": 2})),
        ("GET", one + "/offsets", None),
        ("DELETE", one + "/offsets", None),
        ("GET", one + "/offsets", None),
        ("POST", "/connectors/b/restart?includeTasks=true&onlyFailed=true", None),
        ("POST", "/connectors/b/restart?onlyFailed=true", None),
        ("POST", "/connectors/b/restart", None),
        ("POST", "/connectors/b/tasks/0/restart", None),
    ]


def _validations(bad_sink: dict[str, Any]) -> list[Ask]:
    return [
        ("PUT", "/connector-plugins/FileStreamSource/config/validate", {**GOOD, "name": "v"}),
        ("PUT", "/connector-plugins/FileStreamSource/config/validate", {"connector.class": SOURCE}),
        ("PUT", "/connector-plugins/FileStreamSink/config/validate", GOOD),
        ("PUT", "/connector-plugins/FileStreamSink/config/validate", {}),
        ("PUT", "/connector-plugins/FileStreamSink/config/validate", bad_sink),
        ("PUT", "/admin/loggers/root", {"level": "foo"}),
        ("PUT", "/admin/loggers/root", {}),
        ("GET", "/admin/loggers/no.such.logger", None),
    ]


def deviates(ask: Ask) -> bool:
    method, path, body = ask
    if (method, path) not in DEVIATIONS:
        return False
    if DEVIATIONS[method, path] == "see DEVIATING_BODIES":
        return json.dumps(body) in DEVIATING_BODIES
    return True


_WANTED = {"pause": "PAUSED", "stop": "STOPPED", "resume": "RUNNING"}


def _note(ask: Ask, status: int, wanted: dict[str, str]) -> None:
    """Note which state a connector has in the end, after a request."""
    method, path, body = ask
    parts = path.strip("/").split("/")
    if status >= 300 or parts[0] != "connectors":
        return
    if path == "/connectors" and method == "POST":
        state = str(body.get("initial_state", "RUNNING")).upper()
        wanted[body["name"].strip()] = state
    elif method == "PUT" and parts[2:] == ["config"]:
        wanted.setdefault(parts[1], "RUNNING")
    elif method == "PUT" and parts[-1] in _WANTED:
        wanted[parts[1]] = _WANTED[parts[-1]]
    elif method == "DELETE" and len(parts) == 2:
        wanted.pop(parts[1], None)


def answers(base: str, settled: Callable[[dict[str, str]], None]) -> list[Answer]:
    """Send the requests. Before those about states, `settled` gets the states in the end, and waits for them."""
    found: list[Answer] = []
    wanted: dict[str, str] = {}
    with httpx.Client(base_url=base, timeout=60) as client:
        for method, path, body in script():
            if "status" in path:
                settled(wanted)
            data = None if body is None else json.dumps(body).encode()
            headers = {"Content-Type": "application/json"} if data else {}
            answer = client.request(method, path, content=data, headers=headers)
            _note((method, path, body), answer.status_code, wanted)
            location = (answer.headers.get("location") or "").removeprefix(base)
            kind = answer.headers.get("content-type")
            if answer.status_code in (404, 405):
                kind = None  # Java sends JSON without a type if there is no such path
            shown = masked(json.loads(answer.content)) if answer.content else None
            found.append([answer.status_code, kind, location, shown])
    return found


_DIRECTORY = re.compile(r"location='file:[^']*/")
"""Where the jar of a connector is."""


def masked(value: Any) -> Any:
    """Return an answer without what differs by nature."""
    if isinstance(value, dict):
        keys = [key for key in value if key not in MASKED]
        found = {key: masked(value[key]) for key in keys}
        if str(found.get("name", "")).endswith("plugin.version"):
            found = {
                key: each for key, each in found.items() if key not in ("value", "default_value")
            }
        return found
    if isinstance(value, list):
        return [masked(each) for each in value]
    return _DIRECTORY.sub("location='file:", value) if isinstance(value, str) else value


def wait_a_moment(_: dict[str, str]) -> None:
    time.sleep(1.5)
