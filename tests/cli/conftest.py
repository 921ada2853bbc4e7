"""The command line against a live broker, in this process."""

from __future__ import annotations

import io
import json
import os
import uuid
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from unittest import mock

import pytest
from tests.support.live_broker import live_broker

from odradek.cli import main
from odradek.client.admin.topics import delete_topics
from odradek.client.cluster import Cluster


@dataclass
class Outcome:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def lines(self):
        return self.out.splitlines()

    @property
    def json(self):
        return json.loads(self.out)


def invoke(*words, bootstrap="127.0.0.1:1"):
    """Run `odradek` with these words, as its script does, but in this process."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    with (
        mock.patch.dict(os.environ, {"ODRADEK_BOOTSTRAP_SERVER": bootstrap}),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        code = main.run([str(word) for word in words])
    return Outcome(code, *(stream.buffer.getvalue().decode() for stream in (out, err)))


@pytest.fixture(scope="session")
def bootstrap():
    with live_broker() as address:
        yield address


@pytest.fixture
def odradek(bootstrap):
    """Runs a command that has to succeed, unless `code` says otherwise."""

    def odradek(*words, code=0):
        outcome = invoke(*words, bootstrap=bootstrap)
        assert outcome.code == code, outcome
        return outcome

    return odradek


@pytest.fixture
def name(bootstrap):
    """A name for a topic or group; a topic of that name is deleted afterwards."""
    name = f"cli-{uuid.uuid4().hex[:12]}"
    yield name
    with Cluster(bootstrap) as cluster:
        delete_topics(cluster, [name])


@pytest.fixture
def topic(odradek, name):
    """A topic with two partitions."""
    odradek("topic", "create", name, "--partitions", 2)
    return name
