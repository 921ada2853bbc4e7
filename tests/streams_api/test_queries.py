"""Stores of applications that run are read in process and over HTTP, also of other processes and while tasks move."""

from __future__ import annotations

import gc
import json
import socket
import threading
from dataclasses import dataclass

import pytest
from compat.lab.toolchain import free_port
from tests.cli.conftest import invoke
from tests.streams_api.test_process import running, say, totals, wait_for, word_count
from tests.streams_api.test_streams_process import EVERYTHING, SETTINGS, all_tasks, group

from odradek.client import Admin, Producer
from odradek.core.streams.model.serdes import serde_of
from odradek.streams import (
    App,
    NoSuchStoreError,
    QueryError,
    StoreNotHereError,
    Tumbling,
    Windowed,
)
from odradek.streams.queries.client import ask
from odradek.streams.queries.json_forms import json_of, key_from
from odradek.streams.queries.status import read_status
from odradek.testing import Broker

LETTERS = "abcdefgh"
WANTED = dict.fromkeys(LETTERS, 40)


def serving(bootstrap):
    """An application that will answer queries, and where."""
    app, host = word_count(bootstrap), f"127.0.0.1:{free_port()}"
    return app, host, running(app, **group(application_server=host))


@pytest.fixture
def bootstrap():
    with Broker(settings=SETTINGS) as broker:
        broker.create_topics({"lines": 2, "word-counts": 2})
        yield broker.bootstrap_servers


def value_of(host, key, **parameters):
    answer = ask(host, "/stores/counts", {"key": key, **parameters})
    assert answer.status == 200, answer
    return answer.body["value"]


def test_any_process_answers_for_all_keys(bootstrap):
    say(bootstrap, *["a b c d e f g h"] * 40)
    one_app, one, first = serving(bootstrap)
    two_app, two, second = serving(bootstrap)
    with first as left, second as right:
        wait_for(lambda: len(right.tasks) == 2 and all_tasks(left, right) == EVERYTHING)
        assert totals(bootstrap, WANTED) == WANTED
        wait_for(lambda: len(left.hosts()) == len(right.hosts()) == 2)
        for host in (one, two):
            assert {each: value_of(host, each) for each in LETTERS} == WANTED
            (store,) = [
                each for each in ask(host, "/stores", {}).body["stores"] if each["name"] == "counts"
            ]
            assert (store["kind"], store["partitions"]) == ("timestamped", 2)
            everything = ask(host, "/stores/counts", {}).body["entries"]
            assert {each["key"]: each["value"] for each in everything} == WANTED
            some = ask(host, "/stores/counts", {"first": "b", "last": "d"}).body["entries"]
            assert {each["key"] for each in some} == {"b", "c", "d"}
            missing = ask(host, "/stores/counts", {"key": "nobody"})
            assert missing.status == 404
            assert "no such key" in missing.body["error"]
        here = dict(one_app.store("counts").all())
        there = dict(two_app.store("counts").all())
        assert {**here, **there} == WANTED
        if here:
            key = next(iter(here))
            assert one_app.store("counts").get(key) == 40
            assert one_app.store("counts").metadata(key).active == one
            with pytest.raises(StoreNotHereError, match=f"{one} has partition") as failed:
                two_app.store("counts").get(key)
            assert failed.value.host == one
        roles = {
            each["id"]: each["role"]
            for host in (one, two)
            for each in ask(host, "/status", {}).body["tasks"]
        }
        assert roles == dict.fromkeys(EVERYTHING, "active")


def test_queries_are_answered_while_tasks_move(bootstrap):
    say(bootstrap, *["a b c d e f g h"] * 40)
    _, one, first = serving(bootstrap)
    found, stops = [], threading.Event()

    def query():
        while not stops.is_set():
            found.extend(
                ask(one, "/stores/counts", {"key": each, "timeout": "30"}, 60) for each in LETTERS
            )

    with first as left:
        wait_for(lambda: left.tasks == EVERYTHING)
        assert totals(bootstrap, WANTED) == WANTED
        thread = threading.Thread(target=query)
        thread.start()
        try:
            for _ in range(2):
                _, _, more = serving(bootstrap)
                with more as right:
                    wait_for(lambda: len(right.tasks) == 2)
                wait_for(lambda: left.tasks == EVERYTHING)
        finally:
            stops.set()
            thread.join()
    assert {each.status for each in found} == {200}
    assert {each.body["value"] for each in found} == {40}


def test_a_query_for_a_task_that_does_not_run_is_told_to_try_again(bootstrap, monkeypatch):
    say(bootstrap, *["a b c d e f g h"] * 40)
    app, one, first = serving(bootstrap)
    with first as left:
        wait_for(lambda: left.tasks == EVERYTHING)
        assert totals(bootstrap, WANTED) == WANTED
        (partition,) = {app.store("counts").metadata("a").partition}
        lost = left.states.running.pop((1, partition))
        answer = ask(one, "/stores/counts", {"key": "a", "timeout": "0.1"})
        assert answer.status == 503
        assert "again" in answer.body["error"]
        monkeypatch.setattr(app._queries, "held", lambda _name: [0, 1])  # it has just left
        answer = ask(one, "/stores/counts", {"timeout": "0.1"})
        assert answer.status == 503
        assert f"no process has answered for partitions {partition}" in answer.body["error"]
        left.states.running[1, partition] = lost
        assert value_of(one, "a") == 40


def test_windows_are_fetched(bootstrap):
    app = App("windows", bootstrap)
    stream = app.stream("lines", key=str, value=str)
    stream.group_by_key().windowed_by(Tumbling("10s", grace="1h")).count(store="by-time")
    host = f"127.0.0.1:{free_port()}"
    with running(app, **group(application_server=host)) as worker:
        wait_for(lambda: worker.tasks == ["0_0", "0_1"])
        with Producer(bootstrap_servers=bootstrap) as producer:
            for time_ms in (0, 5_000, 12_000, 30_000):
                producer.send("lines", b"x", key=b"k", timestamp=time_ms)
        wait_for(lambda: len(app.store("by-time").fetch("k")) == 3)
        assert app.store("by-time").fetch("k", 0, 20_000) == [
            (Windowed("k", 0, 10_000), 2),
            (Windowed("k", 10_000, 20_000), 1),
        ]
        answer = ask(host, "/stores/by-time", {"key": "k", "from": "1", "to": "20000"})
        assert answer.body["windows"] == [{"start": 10_000, "end": 20_000, "value": 1}]
        with pytest.raises(NoSuchStoreError, match="has no get; use fetch"):
            app.store("by-time").get("k")
        everything = ask(host, "/stores/by-time", {}).body["entries"]
        assert [each["key"]["start"] for each in everything] == [0, 10_000, 30_000]
        answer = ask(host, "/stores/by-time", {"first": "k"})
        assert answer.status == 400
        assert "no range" in answer.body["error"]


def test_a_global_table_does_not_change_while_a_query_reads_it(bootstrap, monkeypatch):
    app = App("globals", bootstrap)
    app.global_table("word-counts", key=str, value=str, store="names")
    app.stream("lines").filter(lambda _key, _value: False).to("word-counts")
    is_locked = []
    with running(app) as worker:
        update = worker._update_global

        def observed(record):
            is_locked.append(worker.states.lock.locked())
            update(record)

        monkeypatch.setattr(worker, "_update_global", observed)
        with Producer(bootstrap_servers=bootstrap) as producer:
            producer.send("word-counts", b"v", key=b"k")
        wait_for(lambda: is_locked)
        wait_for(lambda: app.store("names").get("k") == "v")
    assert is_locked == [True]


def test_a_worker_whose_address_is_taken_leaves_nothing_open(bootstrap):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        host = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(ValueError, match=f"application_server {host} cannot be listened on"):
            word_count(bootstrap).worker(**group(application_server=host))
    gc.collect()  # what is open would warn


def test_a_wrong_query_says_what_is_wrong(bootstrap):
    with pytest.raises(QueryError, match="does not run in this process"):
        word_count(bootstrap).store("counts")
    with pytest.raises(ValueError, match="application_server needs group_protocol"):
        word_count(bootstrap).worker(application_server="localhost:1")
    app, one, first = serving(bootstrap)
    with first as left:
        wait_for(lambda: left.tasks == EVERYTHING)
        with pytest.raises(NoSuchStoreError, match="there is no store 'sums'; there are counts"):
            app.store("sums")
        with pytest.raises(QueryError, match="the key has another type"):
            app.store("counts").get(5)
        assert ask(one, "/stores/sums", {"key": "a"}).status == 404
        assert ask(one, "/nothing", {}).status == 404
        assert ask(one, "/stores/counts", {"key": "a", "partition": "x"}).status == 400
        assert ask(one, "/stores/counts", {"key": "a", "partition": "7"}).status == 400
        with Admin(bootstrap_servers=bootstrap) as admin:
            assert admin.list_topics()
    with pytest.raises(QueryError, match=f"{one} does not answer"):
        ask(one, "/status", {})


def test_the_commands_query_and_status(bootstrap, tmp_path):
    file = tmp_path / "words.py"
    file.write_text(
        f"from tests.streams_api.test_process import word_count\napp = word_count({bootstrap!r})\n"
    )
    say(bootstrap, *["a b c d e f g h"] * 40)

    def command(*words):
        return invoke("streams", *words[:1], str(file), *words[1:], "-b", bootstrap)

    assert "does not run" in command("query", "counts", "a").err
    _, one, first = serving(bootstrap)
    _, two, second = serving(bootstrap)
    with first as left, second as right:
        wait_for(lambda: len(right.tasks) == 2 and all_tasks(left, right) == EVERYTHING)
        assert totals(bootstrap, WANTED) == WANTED
        wait_for(lambda: len(left.hosts()) == len(right.hosts()) == 2)
        assert command("query", "counts", "a").out == "40\n"
        answer = invoke("streams", "query", "--server", two, "counts", "a", "--json")
        assert json.loads(answer.out)["value"] == 40
        missing = command("query", "counts", "nobody")
        assert (missing.code, missing.err) == (1, "Error: store 'counts' has no such key\n")
        rows = command("query", "counts", "--first", "b", "--last", "c").out.split("\n")
        assert sorted(each.split() for each in rows[1:3]) == [["b", "40"], ["c", "40"]]
        shown = json.loads(command("status", "--json").out)
        assert (shown["type"], shown["state"], len(shown["members"])) == ("streams", "Stable", 2)
        assert [(each["id"], each["role"]) for each in shown["tasks"]] == [
            (each, "active") for each in EVERYTHING
        ]
        assert {each["endpoint"] for each in shown["members"]} == {one, two}
        wait_for(
            lambda: {t["lag"] for t in json.loads(command("status", "--json").out)["tasks"]} == {0}
        )
        other = App("word-count", bootstrap)  # an earlier version
        other.stream("lines").to("word-counts")
        with Admin(bootstrap_servers=bootstrap) as admin:
            tasks = read_status(other.topology(), admin).tasks
        assert [(each.id, each.lag is None) for each in tasks] == [
            (each, each.startswith("1")) for each in EVERYTHING
        ]
        text = command("status").out
        assert "word-count: streams group, Stable" in text
        assert one in text
    assert invoke("streams", "query", "counts").code == 2
    assert json.loads(command("status", "--json").out)["unassigned"] == EVERYTHING


@dataclass
class Place:
    city: str
    zip: int


def test_keys_and_values_as_json():
    assert json_of({"a": (Place("x", 1), b"\x00")}) == {"a": [{"city": "x", "zip": 1}, "AA=="]}
    assert key_from("7", serde_of(int)) == 7
    assert key_from("AA==", serde_of(bytes)) == b"\x00"
    assert key_from('{"city": "x", "zip": 1}', serde_of(Place)) == Place("x", 1)
    with pytest.raises(QueryError, match="'x' is no key of the type int"):
        key_from("x", serde_of(int))
