"""Our quotas measure and throttle as Apache Kafka's classes do: random histories, run through both.

`python -m tests.oracle.test_java_quotas` records Apache Kafka's answers to one history.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from compat.lab.toolchain import Missing
from tests.oracle.jvm import quotas
from tests.support.run_seed import seeds

from odradek.core.quota.clients import ClientQuotas
from odradek.core.quota.limits import CLIENT_ID, USER
from odradek.core.quota.meters import Windows
from odradek.core.quota.mutations import MutationQuota
from odradek.model.errors import ApiError

RECORDED = Path(__file__).parents[1] / "fixtures/apache-kafka-4.3.0/quotas.txt"
SEED = 20_261_122
NAMES = {
    "produce": "producer_byte_rate",
    "request": "request_percentage",
    "mutation": "controller_mutation_rate",
}
USERS, IDS = ("ann", "bob"), ("a", "b", "", "~")
UNLIMITED_IN_JAVA = float(2**63 - 1), 1.7976931348623157e308


class Ours:
    """Runs the commands of Quotas.java; see there."""

    def __init__(self) -> None:
        self.answers: list[str] = []

    def run(self, *words: str) -> None:
        getattr(self, words[0])(*words[1:])

    def new(self, kind: str, windows: str, seconds: str) -> None:
        self.windows = Windows(int(windows), int(seconds) * 1000)
        self.clients = ClientQuotas(self.windows, self.windows)
        self.name = NAMES[kind]
        self.kind = kind

    def limit(self, user: str, client_id: str, value: str) -> None:
        parts = [(USER, user), (CLIENT_ID, client_id)]
        entity = tuple((k, None if n == "*" else n) for k, n in parts if n != "-")
        self.clients.apply([(entity, None if value == "-" else {self.name: float(value)})])

    def _manager(self) -> object:
        return {"produce": self.clients.produce, "request": self.clients.request}[self.kind]

    def record(self, user: str, client_id: str, value: str, ms: str) -> None:
        meter = self._manager().meter(user, None if client_id == "~" else client_id, int(ms))  # type: ignore[attr-defined]
        self.answers.append(str(0 if meter is None else meter.record(float(value), int(ms))))

    def mutate(self, user: str, client_id: str, value: str, ms: str, mode: str) -> None:
        meter = self.clients.mutation.meter(user, client_id, int(ms))
        if meter is None:
            self.answers.append("0")
            return
        quota = MutationQuota(meter, mode == "strict", int(ms))
        refused = ""
        try:
            quota.record(int(value))
        except ApiError:
            refused = " refused"
        self.answers.append(f"{quota.finish(int(ms))}{refused}")

    def key(self, user: str, client_id: str) -> None:
        limits = self.clients.produce.limits
        key = limits.key(user, None if client_id == "~" else client_id)
        limit = limits.of(key)
        seconds = (self.windows.number - 1) * self.windows.window_ms / 1000
        text = "none" if limit is None else str(limit * seconds)
        self.answers.append(
            f"{key.user}\t{'null' if key.client_id is None else key.client_id}\t{text}"
        )


def compare(commands: list[tuple[str, ...]], theirs: list[str]) -> None:
    ours = Ours()
    for words in commands:
        ours.run(*words)
    asked = [words for words in commands if words[0] in ("record", "mutate", "key")]
    assert len(theirs) == len(asked) == len(ours.answers)
    for number, (words, mine, java) in enumerate(zip(asked, ours.answers, theirs, strict=True)):
        assert mine == normal(words, java), (number, words)


def normal(words: tuple[str, ...], answer: str) -> str:
    """Java's answer in our form. Without a limit, the key does not matter."""
    if words[0] != "key":
        return answer
    user, client_id, limit = answer.split("\t")
    value = float(limit)
    text = "none" if value >= UNLIMITED_IN_JAVA[0] else str(value)
    return f"{user}\t{client_id}\t{text}"


ENTITIES = [
    (user, client_id)
    for user in (*USERS, "*", "-")
    for client_id in ("a", "b", "*", "-")
    if (user, client_id) != ("-", "-")
]


def precedence(draw: random.Random, rounds: int) -> list[tuple[str, ...]]:
    """Limits that come and go; after each change the limit of every client."""
    commands: list[tuple[str, ...]] = []
    for _ in range(rounds):
        commands.append(("new", "produce", "11", "1"))
        present: set[tuple[str, str]] = set()
        for step in range(draw.randint(1, 6)):
            entity = draw.choice(ENTITIES)
            if entity in present and draw.random() < 0.6:
                present.discard(entity)
                commands.append(("limit", *entity, "-"))
            else:
                present.add(entity)
                commands.append(("limit", *entity, str(100 + step)))
            if present:
                commands += [("key", user, client_id) for user in USERS for client_id in IDS]
    return commands


def rates(kind: str) -> Callable[[random.Random, int], list[tuple[str, ...]]]:
    def history(draw: random.Random, rounds: int) -> list[tuple[str, ...]]:
        commands: list[tuple[str, ...]] = []
        for _ in range(rounds):
            windows, seconds = draw.choice([(11, 1), (2, 1), (1, 1), (5, 3)])
            commands.append(("new", kind, str(windows), str(seconds)))
            commands.append(("limit", "ann", "-", str(draw.choice([0.5, 7, 100, 1000]))))
            now = 1000
            for _ in range(60):
                now += draw.choice([0, 1, 10, 100, 700, 1000, 2500, 12_000, 60_000])
                value = str(draw.choice([0, 1, 10, 500, 3000, -10]))
                commands.append(("record", "ann", draw.choice(["a", "b"]), value, str(now)))
                if draw.random() < 0.05:
                    commands.append(("limit", "ann", "-", str(draw.choice([3, 50, 2000]))))
        return commands

    return history


def mutations(draw: random.Random, rounds: int) -> list[tuple[str, ...]]:
    commands: list[tuple[str, ...]] = []
    for _ in range(rounds):
        commands.append(("new", "mutation", "11", "1"))
        commands.append(("limit", "*", "-", str(draw.choice([0.5, 2, 10]))))
        now = 100_000_000  # Java's bucket is empty at 0, and full soon afterwards
        for _ in range(40):
            now += draw.choice([0, 5, 300, 1000, 4000, 30_000])
            mode = draw.choice(["strict", "permissive"])
            words = (
                "mutate",
                draw.choice(USERS),
                "a",
                str(draw.choice([1, 5, 40])),
                str(now),
                mode,
            )
            commands.append(words)
            if draw.random() < 0.05:
                commands.append(("limit", "*", "-", str(draw.choice([1, 20]))))
    return commands


def history(draw: random.Random, rounds: int) -> list[tuple[str, ...]]:
    parts = (precedence, rates("produce"), rates("request"), mutations)
    return [words for part in parts for words in part(draw, rounds)]


def test_a_recorded_history() -> None:
    theirs = RECORDED.read_text(encoding="utf-8").splitlines()
    compare(history(random.Random(SEED), 8), theirs)


@pytest.mark.java
@pytest.mark.cluster
def test_random_histories() -> None:
    commands = history(random.Random(seeds(1)[0]), 60)
    try:
        theirs = quotas(commands)
    except Missing as reason:
        pytest.skip(str(reason))
    compare(commands, theirs)


if __name__ == "__main__":
    RECORDED.write_text("\n".join(quotas(history(random.Random(SEED), 8))) + "\n", encoding="utf-8")
