"""Messages of Connect groups are those of Java: it reads ours, and writes the same bytes."""

from __future__ import annotations

import base64
import random

import pytest
from compat.lab.toolchain import Missing
from tests.oracle.jvm import connect_protocol
from tests.support.run_seed import seeds

from odradek.core.connect.assignor import Work
from odradek.core.connect.config_log import TaskId
from odradek.core.connect.group_protocol import (
    Assignment,
    Metadata,
    decode_assignment,
    decode_metadata,
    encode_assignment,
    encode_metadata,
)

pytestmark = [pytest.mark.cluster, pytest.mark.java]

NAMES = ["a", "bee", "ü", "with-dash"]


def work(r: random.Random) -> Work:
    """Return work in the order in which Java writes it: the connector itself before its tasks."""
    found = Work()
    for name in r.sample(NAMES, r.randrange(3)):
        if r.random() < 0.5:
            found.connectors.append(name)
        found.tasks += [TaskId(name, each) for each in range(r.randrange(3))]
    return found


def assignment(r: random.Random) -> Assignment:
    version = r.choice([1, 2])
    error, offset = r.randrange(2), r.choice([-1, 0, 2**40])
    delay_ms = r.choice([0, 300_000])
    return Assignment(
        error, "leader-1", "http://host:8083/", offset, work(r), work(r), delay_ms, version
    )


@pytest.mark.parametrize("seed", seeds(1))
def test_messages_are_java_s(seed: int) -> None:
    r = random.Random(seed)
    messages: list[tuple[str, bytes]] = []
    for _ in range(500):
        given = assignment(r)
        encoded = encode_assignment(given)
        assert _sets(decode_assignment(encoded)) == _sets(given)
        messages.append(("a", encoded))
        current = None if r.random() < 0.2 else given
        metadata = Metadata("http://me:8083/", r.choice([0, 7]), current, given.version)
        encoded = encode_metadata(metadata)
        found = decode_metadata(encoded)
        assert (found.url, found.config_offset) == (metadata.url, metadata.config_offset)
        messages.append(("m", encoded))
    lines = [f"{kind}\t{base64.b64encode(data).decode()}" for kind, data in messages]
    try:
        theirs = connect_protocol(lines)
    except Missing as missing:
        pytest.skip(str(missing))
    for (kind, data), java in zip(messages, theirs, strict=True):
        assert not java.startswith("!"), java
        again = base64.b64decode(java)
        assert len(again) == len(data)
        if kind == "a":
            assert _sets(decode_assignment(again)) == _sets(decode_assignment(data))
        else:
            ours, other = decode_metadata(data).current, decode_metadata(again).current
            assert (ours is None) == (other is None)
            assert ours is None or other is None or _sets(ours) == _sets(other)


def _sets(given: Assignment) -> tuple[object, ...]:
    """Return the fields; Java's maps have no order."""
    works = [(sorted(each.connectors), sorted(each.tasks)) for each in (given.work, given.revoked)]
    head = (given.error, given.leader, given.leader_url, given.config_offset)
    return (*head, works, given.delay_ms, given.version)
