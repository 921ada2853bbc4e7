"""The leader of a Connect group distributes connectors and tasks (KIP-415).

    round 1   member a: 4 tasks        member b joins
    round 2   a: gives up 2 tasks      (only these stop)
    round 3   a: 2 tasks               b: 2 tasks

In one round, what moves is only revoked; it is assigned in the next. If a member has left, its work waits
for up to `delay_ms_max`, so that a member that restarts gets it back, and nothing else moves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from odradek.core.connect.config_log import TaskId

_BACKOFF_FACTOR = 40


@dataclass(slots=True)
class Work:
    """Connectors and tasks, in order."""

    connectors: list[str] = field(default_factory=list)
    tasks: list[TaskId] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.connectors or self.tasks)

    def copy(self) -> Work:
        """Return a copy."""
        return Work(list(self.connectors), list(self.tasks))

    def without(self, *others: Work) -> Work:
        """Return what is in none of the others."""
        connectors = {each for other in others for each in other.connectors}
        tasks = {each for other in others for each in other.tasks}
        return Work(
            [each for each in self.connectors if each not in connectors],
            [each for each in self.tasks if each not in tasks],
        )

    def shared_with(self, other: Work) -> Work:
        """Return what is also in the other."""
        connectors, tasks = set(other.connectors), set(other.tasks)
        return Work(
            [each for each in self.connectors if each in connectors],
            [each for each in self.tasks if each in tasks],
        )

    def and_also(self, *others: Work) -> Work:
        """Return everything, each once."""
        every = (self, *others)
        return Work(
            list(dict.fromkeys(each for work in every for each in work.connectors)),
            list(dict.fromkeys(each for work in every for each in work.tasks)),
        )


@dataclass(frozen=True, slots=True)
class Round:
    """What the members get and give up in a round, and what they have afterwards."""

    assigned: dict[str, Work]
    revoked: dict[str, Work]
    held: dict[str, Work]
    delay_ms: int
    """When the members join again at the latest; 0: nothing is waited for."""


class Assignor:
    """The leader's memory from round to round."""

    def __init__(self, delay_ms_max: int) -> None:
        """`delay_ms_max` is `scheduled.rebalance.max.delay.ms`."""
        self._delay_ms_max = delay_ms_max
        self._previous = Work()
        self._previous_revoked = Work()
        self._previous_generation = -1
        self._previous_members: set[str] = set()
        self._candidates: list[str] = []
        """Members that had nothing while lost work waited; they get it."""
        self._scheduled_ms = 0
        self._delay_ms = 0
        self._has_revoked = False
        self._revoking_rounds = 0

    def assign(
        self,
        configured: Work,
        members: Mapping[str, Work],
        *,
        last_generation: int,
        generation: int,
        now_ms: int,
    ) -> Round:
        """Distribute the work. `members` have what they run now.

        `last_generation` is the last one that this leader has completed. If it is not the one after the
        last call, the memory is outdated, and lost work cannot be told from new work.
        """
        if self._previous_generation != last_generation:
            self._previous = Work()
        active = Work().and_also(*members.values())
        if self._previous_revoked:
            if self._previous_revoked.shared_with(active):
                self._previous = active.copy()
            self._previous_revoked = Work()
        deleted = self._previous.without(configured)
        lost = self._previous.without(active, deleted)
        created = configured.without(self._previous, active)
        gone = {
            member: work.shared_with(deleted.and_also(_duplicated(members.values())))
            for member, work in members.items()
        }
        present = {member: work.without(deleted) for member, work in members.items()}
        following = {member: work.without(gone[member]) for member, work in members.items()}
        again = self._again(lost, following, now_ms)
        revoked = gone
        if self._delay_ms:
            self._has_revoked = False
        else:
            balancing = self._balancing(configured, following, now_ms)
            for member, work in balancing.items():
                following[member] = following[member].without(work)
                revoked[member] = revoked[member].and_also(work)
        _distribute(following, created.and_also(again))
        self._remember(following, revoked, lost, generation)
        return Round(
            {member: work.without(present[member]) for member, work in following.items()},
            revoked,
            {member: work.without(revoked[member]) for member, work in following.items()},
            self._delay_ms,
        )

    def _remember(
        self,
        following: Mapping[str, Work],
        revoked: Mapping[str, Work],
        lost: Work,
        generation: int,
    ) -> None:
        all_revoked = Work().and_also(*revoked.values())
        self._previous = Work().and_also(*following.values()).without(all_revoked).and_also(lost)
        self._previous_revoked = all_revoked
        self._previous_generation = generation
        self._previous_members = set(following)

    # -- lost work ------------------------------------------------------------------------------

    def _again(self, lost: Work, following: dict[str, Work], now_ms: int) -> Work:
        """Return the lost work that is assigned as new work in this round."""
        if not lost and not self._has_revoked:
            self._reset_delay()
            return Work()
        nobody_left = self._scheduled_ms <= 0 and self._previous_members <= set(following)
        if nobody_left or self._delay_ms_max == 0:
            return lost
        if 0 < self._scheduled_ms <= now_ms:
            takers = [each for each in self._candidates if each in following]
            if takers:
                for index, connector in enumerate(lost.connectors):
                    following[takers[index % len(takers)]].connectors.append(connector)
                for index, task in enumerate(lost.tasks):
                    following[takers[index % len(takers)]].tasks.append(task)
            self._reset_delay()
            self._has_revoked = False
            return Work() if takers else lost
        empty = [each for each, work in following.items() if not work]
        self._candidates = list(dict.fromkeys([*self._candidates, *empty]))
        self._delay_ms = self._delay_ms_max
        if now_ms < self._scheduled_ms:
            self._delay_ms = min(self._scheduled_ms - now_ms, self._delay_ms_max)
        self._scheduled_ms = now_ms + self._delay_ms
        return Work()

    def _reset_delay(self) -> None:
        self._candidates = []
        self._scheduled_ms = 0
        self._delay_ms = 0

    # -- balance --------------------------------------------------------------------------------

    def _balancing(
        self, configured: Work, following: Mapping[str, Work], now_ms: int
    ) -> dict[str, Work]:
        """Return what is revoked so that the load can be balanced.

        Two rounds running that revoke something are a sign of trouble: then they are delayed more and more.
        """
        wanted: dict[str, Work] = {}
        if any(following.values()) and configured:
            for member in following:
                wanted[member] = Work()
            connectors = {member: work.connectors for member, work in following.items()}
            tasks = {member: work.tasks for member, work in following.items()}
            for member, extra in _extra(len(configured.connectors), connectors).items():
                wanted[member].connectors.extend(extra)
            for member, other in _extra(len(configured.tasks), tasks).items():
                wanted[member].tasks.extend(other)
        found = {member: work for member, work in wanted.items() if work}
        if not found:
            if self._has_revoked:
                self._has_revoked = False
                self._revoking_rounds = 0
            return {}
        if self._has_revoked:
            self._revoking_rounds += 1
            self._delay_ms = self._backoff_ms()
            if self._delay_ms:
                self._scheduled_ms = now_ms + self._delay_ms
                return {}
            return found
        self._has_revoked = True
        return found

    def _backoff_ms(self) -> int:
        if self._delay_ms_max == 0:
            return 0
        grown = int(_BACKOFF_FACTOR ** min(self._revoking_rounds, 10))
        return min(grown, self._delay_ms_max)


def _extra(total: int, held: Mapping[str, list[str] | list[TaskId]]) -> dict[str, list]:  # type: ignore[type-arg]
    """Return what each member has above its share."""
    share, extras = divmod(total, len(held))
    sizes = [len(each) for each in held.values()]
    if sizes.count(share + 1) == extras and sizes.count(share) + extras == len(sizes):
        return {}
    found = {}
    used = 0
    for member, work in held.items():
        if len(work) <= share:
            continue
        most = share
        if used < extras:
            used += 1
            most = share + 1
        if len(work) > most:
            found[member] = list(work[: len(work) - most])
    return found


def _duplicated(works: Iterable[Work]) -> Work:
    """Return what several members have."""
    seen, twice = Work(), Work()
    for work in works:
        twice = twice.and_also(work.shared_with(seen))
        seen = seen.and_also(work)
    return twice


def _distribute(following: Mapping[str, Work], new: Work) -> None:
    """Give each piece of new work to a member with the least."""
    for connector in new.connectors:
        min(following.values(), key=lambda work: len(work.connectors)).connectors.append(connector)
    for task in new.tasks:
        min(following.values(), key=lambda work: len(work.tasks)).tasks.append(task)
