"""The assignor of Connect groups: whatever happens, all work ends up somewhere, once, and evenly."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from odradek.core.connect.assignor import Assignor, Round, Work
from odradek.core.connect.config_log import TaskId

DELAY_MS = 1_000


class Group:
    """Members that do what the leader says, and join again when they must."""

    def __init__(self, delay_ms: int = DELAY_MS) -> None:
        self.assignor = Assignor(delay_ms)
        self.configured = Work()
        self.members: dict[str, Work] = {}
        self.now_ms = 0
        self.generation = 0

    def create(self, name: str, tasks: int) -> None:
        self.configured.connectors.append(name)
        self.configured.tasks += [TaskId(name, each) for each in range(tasks)]

    def delete(self, name: str) -> None:
        self.configured.connectors.remove(name)
        self.configured.tasks = [each for each in self.configured.tasks if each.connector != name]

    def round(self) -> Round:
        before = {member: work.copy() for member, work in self.members.items()}
        self.generation += 1
        found = self.assignor.assign(
            self.configured.copy(),
            before,
            last_generation=self.generation - 1 if self.generation > 1 else -1,
            generation=self.generation,
            now_ms=self.now_ms,
        )
        running = [each for work in self.members.values() for each in work.tasks]
        for member, work in found.assigned.items():
            new = [each for each in work.tasks if each not in self.members[member].tasks]
            assert not set(new) & set(running), "nothing starts while it runs elsewhere"
            kept = self.members[member].without(found.revoked[member])
            self.members[member] = kept.and_also(work)
        return found

    def settle(self) -> None:
        """Let rounds pass until nothing moves."""
        for _ in range(20):
            found = self.round()
            if found.delay_ms:
                self.now_ms += found.delay_ms
            elif not any(found.revoked.values()):
                return
        raise AssertionError("the group does not settle")

    def check(self) -> None:
        if not self.members:
            return
        for kind in ("connectors", "tasks"):
            held = [each for work in self.members.values() for each in getattr(work, kind)]
            assert sorted(held) == sorted(getattr(self.configured, kind))
            sizes = [len(getattr(work, kind)) for work in self.members.values()]
            assert max(sizes) - min(sizes) <= 1


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["join", "leave", "create", "delete", "settle", "wait"]),
        st.integers(0, 4),
    ),
    max_size=25,
)


@given(STEPS, st.sampled_from([0, DELAY_MS]))
def test_all_work_is_done_once_and_evenly(steps: list[tuple[str, int]], delay_ms: int):
    group = Group(delay_ms)
    group.members["first"] = Work()
    for what, number in steps:
        name = f"n{number}"
        if what == "join":
            group.members.setdefault(name, Work())
        elif what == "leave":
            group.members.pop(name, None)
        elif what == "create" and name not in group.configured.connectors:
            group.create(name, number)
        elif what == "delete" and name in group.configured.connectors:
            group.delete(name)
        elif what == "wait":
            group.now_ms += 400 * number
        if what == "settle":
            group.settle()
            group.check()
        else:
            group.round()
    group.now_ms += 10 * DELAY_MS
    group.settle()
    group.settle()
    group.check()


def test_a_member_that_comes_back_in_time_gets_its_work_back():
    group = Group()
    group.members |= {"a": Work(), "b": Work()}
    group.create("c", 6)
    group.settle()
    kept = group.members["a"].copy()
    lost = group.members.pop("b")
    assert group.round().delay_ms == DELAY_MS
    assert group.members["a"] == kept, "nothing moves while the work waits"
    group.now_ms += DELAY_MS // 2
    group.members["b2"] = Work()
    assert group.round().delay_ms == DELAY_MS // 2
    group.now_ms += DELAY_MS
    group.settle()
    assert sorted(group.members["b2"].tasks) == sorted(lost.tasks)
    assert group.members["a"] == kept


def test_only_what_moves_stops():
    group = Group()
    group.members["a"] = Work()
    group.create("c", 4)
    group.settle()
    group.members["b"] = Work()
    found = group.round()
    assert len(found.revoked["a"].tasks) == 2
    assert not found.assigned["b"], "it is assigned in the next round"
    found = group.round()
    assert len(found.assigned["b"].tasks) == 2
    assert not found.revoked["a"]
