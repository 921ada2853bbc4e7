"""Each line of a followed log is in the topic once, however its file is rotated, and after each kill."""

from __future__ import annotations

import gzip
import json
import os
import random
import shutil
import threading
import uuid
from contextlib import contextmanager

import pytest
from tests.support.live_broker import live_broker
from tests.support.run_seed import run_seed

from odradek.client.producer import Producer
from odradek.pipelines.follow import finding, follower
from odradek.pipelines.follow.follower import Follower
from odradek.pipelines.follow.log import log_of
from odradek.pipelines.own.shipping import read_all
from odradek.pipelines.places import PipelineError, Places


@pytest.fixture(scope="module")
def servers():
    with live_broker() as address:
        yield address


class KilledError(BaseException):
    """Ends the process in the test."""


class Store:
    """Topics in memory. A commit may end the process, before or after it."""

    def __init__(self):
        self.records = []
        self.chance = None

    @contextmanager
    def transaction(self):
        self.sent = []
        yield
        if self.chance and self.chance.random() < 0.15:
            raise KilledError
        self.records += self.sent
        if self.chance and self.chance.random() < 0.15:
            raise KilledError

    def send(self, topic, value, key):
        self.sent.append((topic, key, value))

    def values(self, topic):
        return {key: value for name, key, value in self.records if name == topic}


class Lab:
    """A directory with logs, and the topic that gets their lines."""

    def __init__(self, directory):
        self.logs = directory / "logs"
        self.logs.mkdir()
        self.store = Store()
        self.places = Places(None, "", directory / "output", is_continued=True)
        self.said = []
        self.follower = None

    def new_follower(self, *given, topic="logs"):
        return Follower(
            self.places,
            topic,
            given or [self.logs],
            lambda log, number, text: json.dumps([log.file, log.generation, number, text]),
            self.said.append,
        )

    @contextmanager
    def following(self, *given):
        """A process that follows files: `poll` looks at them once."""
        self.follower = self.new_follower(*given)
        stored = self.store.values("logs.followed").values()
        self.follower.restore([log_of(each) for each in stored])
        try:
            yield lambda: self.follower.poll(self.store)
        finally:
            self.follower.close()

    def path(self, name="app.log"):
        return self.logs / name

    def add(self, *lines, name="app.log", end="\n"):
        with self.path(name).open("a") as file:
            file.write("".join(f"{each}\n" for each in lines)[:-1] + end)

    def rename(self, name="app.log", new="app.log.1"):
        self.path(name).rename(self.path(new))

    def copy_and_truncate(self, name="app.log", new="app.log.1"):
        shutil.copyfile(self.path(name), self.path(new))
        os.truncate(self.path(name), 0)

    def compress(self, name="app.log.1", new="app.log.1.gz"):
        self.path(new).write_bytes(gzip.compress(self.path(name).read_bytes()))
        self.path(name).unlink()

    @property
    def rows(self):
        return rows_of([value for name, _, value in self.store.records if name == "logs"])

    @property
    def texts(self):
        return sorted(text for *_, text in self.rows)


def rows_of(values):
    return [(os.path.basename(file), *more) for file, *more in map(json.loads, values)]


@pytest.fixture
def lab(tmp_path, monkeypatch):
    monkeypatch.setattr(follower, "LINES_MAX", 4)
    return Lab(tmp_path)


def test_lines_are_sent_when_they_are_complete(lab):
    lab.add("a", "b", "c", "d", "e", "f", end="")
    with lab.following() as poll:
        poll()
        assert [text for *_, text in lab.rows] == ["a", "b", "c", "d", "e"]
        (left,) = lab.follower.left
        assert "app.log: the last line has no end yet" in left
        lab.add("g\r", "h\x00\udcff".encode("utf-8", "replace").decode())
        poll()
    assert lab.rows[5:] == [
        ("app.log", 1, 6, "fg\r"), ("app.log", 1, 7, "h\x00?"),
    ]  # fmt: skip
    with lab.following() as poll:
        poll()
        assert len(lab.rows) == 7
        assert lab.follower.left == []
    assert lab.said == []


def test_rotation_by_rename(lab):
    lab.add("a", "b")
    with lab.following() as poll:
        poll()
        lab.add("c", end="")
        lab.rename()
        lab.add("d", "e")
        lab.add("c", name="app.log.1")  # the program has not opened the new file yet
        poll()
        lab.rename("app.log.1", "app.log.2")
        lab.rename("app.log", "app.log.1")
        lab.add("f")
        poll()
        lab.compress("app.log.2", "app.log.2.gz")
        poll()
        lab.path("app.log.2.gz").rename(lab.path("app.log.3.gz"))
        poll()
    expected = {("app.log", 1, 1, "a"), ("app.log", 1, 2, "b"), ("app.log", 1, 3, "cc")}
    expected |= {("app.log", 2, 1, "d"), ("app.log", 2, 2, "e"), ("app.log", 3, 1, "f")}
    assert set(lab.rows) == expected
    assert len(lab.rows) == 6
    with lab.following() as poll:
        poll()
    assert len(lab.rows) == 6
    assert lab.said == []


def test_rotation_by_copy(lab, monkeypatch):
    lab.add("a", "b")
    with lab.following() as poll:
        poll()
        shutil.copyfile(lab.path(), lab.path("app.log.1"))
        poll()
        assert any("it may be a copy in the making" in each for each in lab.follower.left)
        lab.add("c")
        lab.add("c", name="app.log.1")
        os.truncate(lab.path(), 0)
        poll()
        lab.add("a", "d")
        poll()
        lab.compress()
        poll()
        lab.add("e")
        lab.copy_and_truncate()
        lab.add("a", "f")
        poll()
        assert lab.follower.left == []
    assert lab.texts == ["a", "a", "a", "b", "c", "d", "e", "f"]
    assert sum("app.log was truncated or written again" in each for each in lab.said) == 2
    lab.add("twin")
    with lab.following() as poll:
        poll()
        shutil.copyfile(lab.path(), lab.path("app.log.twin"))
        poll()
        assert lab.texts.count("twin") == 1
        monkeypatch.setattr(finding, "COPY_S", 0)  # it is no rotation
        poll()
        assert lab.texts.count("twin") == 2


def test_what_happens_while_nobody_follows(lab):
    lab.add("a", "b")
    lab.add("x", name="other.log")
    with lab.following() as poll:
        poll()
    lab.add("c", end="")  # the program has ended within a line
    lab.rename()
    lab.compress()
    lab.add("d")
    lab.rename(new="app.log.0")
    lab.add("e")
    os.truncate(lab.path("other.log"), 0)
    lab.add("y", name="other.log")
    with lab.following() as poll:
        poll()
        poll()
    assert lab.texts == ["a", "b", "c", "d", "e", "x", "y"]
    assert ("app.log", 1, 3, "c") in lab.rows
    assert ("other.log", 2, 1, "y") in lab.rows


def test_one_file_that_is_given_includes_its_rotations(lab):
    lab.add("old", name="app.log.1")
    os.utime(lab.path("app.log.1"), (1e9, 1e9))
    lab.add("a")
    lab.add("other", name="app.log.err")
    with lab.following(lab.path()) as poll:
        poll()
    assert lab.texts == ["a"]
    lab.rename("app.log.1", "app.log.3")
    lab.add("b")
    lab.rename(new="app.log.2")
    lab.add("c")
    lab.rename(new="app.log.1")
    lab.add("other", name="app.log.err")
    lab.add("d")
    with lab.following(lab.path()) as poll:
        poll()
    assert lab.texts == ["a", "b", "c", "d"]


def test_what_is_no_log(lab, monkeypatch):
    monkeypatch.setattr(follower, "CHUNK_BYTES", 1 << 20)
    lab.path("empty").touch()
    lab.path("binary").write_bytes(bytes(100))
    lab.path("cut.gz").write_bytes(gzip.compress(b"a\n" * 100)[:-4])
    lab.path("long").write_bytes(b"x" * 2_500_000)
    with lab.following() as poll:
        poll()
        poll()
        assert lab.rows == []
        assert lab.said == [f"{lab.path('binary')} is not read: it is not text"]
        lab.add("", "y", name="long")
        lab.path("cut.gz").write_bytes(gzip.compress(b"a\nb"))
        poll()
        assert lab.texts == ["a", "b", "y"]
        assert ("long", 1, 2, "y") in lab.rows
        assert f"{lab.path('long')}: line 1 is not sent: it is too long" in lab.said
        assert [each.skipped for each in lab.follower.logs if "long" in each.file] == [1]


def test_a_file_that_is_deleted_is_read_to_its_end(lab):
    lab.add("a")
    with lab.following() as poll:
        poll()
        with lab.path().open("a") as file:
            lab.path().unlink()
            file.write("b\n")
            file.flush()
            poll()
        lab.add("c")  # may get the same inode
        poll()
    assert lab.texts == ["a", "b", "c"]


def test_a_file_without_a_complete_line_that_goes(lab, monkeypatch):
    monkeypatch.setattr(follower, "DELETED_S", -1)
    lab.add("a", end="")
    with lab.following() as poll:
        poll()
        lab.path().unlink()
        poll()
        for name in ("b", "c", "d"):  # one may get the same inode
            lab.add(name, name=name)
        shutil.rmtree(lab.logs)
        poll()
        lab.logs.mkdir()
        lab.add("e")
        poll()
    assert lab.texts == ["e"]


def test_a_copy_that_is_missing(lab):
    lab.add("a")
    with lab.following() as poll:
        poll()
    shutil.rmtree(lab.places.output / "input")
    with pytest.raises(PipelineError, match=r"lacks what was read of .*app\.log"), lab.following():
        pass


@pytest.mark.parametrize("number", range(40))
def test_random_programs_rotations_and_kills(lab, number):
    chance = random.Random(run_seed() + number)
    lab.store.chance = chance
    written, rotated, cut = [], 0, []

    def end_line(name):
        lab.add(len(written), name=name)
        written.append(f"line {len(written)}")

    def act(poll):
        nonlocal rotated
        kind = chance.choices(("write", "rename", "copy", "compress"), (8, 1, 1, 1))[0]
        if kind == "write" or not lab.path().exists():
            name = chance.choice(("app.log", "b.log"))
            for _ in range(chance.randrange(1, 9)):
                lab.add("line ", name=name, end="")
                cut.append(name)
                if chance.random() < 0.1:
                    poll()
                end_line(cut.pop())
        elif kind == "compress" and lab.path(f"app.log.{rotated}").exists():
            lab.compress(f"app.log.{rotated}", f"app.log.{rotated}.gz")
        elif kind in {"rename", "copy"}:
            rotated += 1
            rotate = lab.rename if kind == "rename" else lab.copy_and_truncate
            rotate(new=f"app.log.{rotated}")

    for _ in range(12):
        try:
            with lab.following() as poll:
                for _ in range(3):
                    act(poll)
                    poll()
        except KilledError:
            while cut:  # the program goes on
                end_line(cut.pop())
    lab.store.chance = None
    with lab.following() as poll:
        poll()
        poll()
        assert lab.follower.left == []
    assert lab.texts == sorted(written), lab.said


def test_it_is_in_the_topic(lab, servers, monkeypatch):
    places = Places(None, servers, lab.places.output, is_continued=True)
    lab.places, topic = places, f"logs-{uuid.uuid4().hex[:8]}"
    places.create(topic)
    lab.add(*"abcdefghi")

    def end_before_the_third(producer, timeout=None):
        if next(left, None) is None:
            raise KilledError
        commit(producer, timeout)

    left, commit = iter(range(2)), Producer.commit_transaction
    ending = threading.Event()
    ending.set()
    with monkeypatch.context() as patch:
        patch.setattr(Producer, "commit_transaction", end_before_the_third)
        killed = lab.new_follower(topic=topic)
        killed.run(ending)
        assert isinstance(killed.error, KilledError)
    lab.rename()
    lab.add("j")
    for _ in range(2):
        following = lab.new_follower(topic=topic)
        following.run(ending)
        assert following.error is None
    texts = [text for *_, text in rows_of(each.value for each in read_all(places, topic))]
    assert sorted(texts) == [*"abcdefghij"]
