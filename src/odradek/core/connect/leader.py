"""What the leader of a group of workers does when the group rebalances: it makes the assignments."""

from __future__ import annotations

from collections.abc import Mapping

from odradek.core.connect.assignor import Assignor, Work
from odradek.core.connect.config_log import ConfigLog, TaskId
from odradek.core.connect.group_protocol import (
    CONFIG_MISMATCH,
    EAGER,
    NO_ERROR,
    VERSIONS,
    Assignment,
    MalformedError,
    Metadata,
    decode_metadata,
    encode_assignment,
)


class Leader:
    """The assignor with its memory, and what it knows about the members."""

    def __init__(self, delay_ms_max: int) -> None:
        """`delay_ms_max` is `scheduled.rebalance.max.delay.ms`."""
        self._assignor = Assignor(delay_ms_max)
        self._urls: dict[str, str] = {}
        self._held: dict[str, Work] = {}

    def forget(self) -> None:
        """Forget the members, because a rebalance begins."""
        self._urls = {}
        self._held = {}

    def owner_url(self, subject: str | TaskId) -> str | None:
        """Return the address of the worker that runs a connector or a task."""
        for member, work in self._held.items():
            has = work.tasks if isinstance(subject, TaskId) else work.connectors
            if subject in has:
                return self._urls[member]
        return None

    def assign(
        self,
        log: ConfigLog,
        protocol: str,
        members: Mapping[str, bytes],
        *,
        leader: str,
        last_generation: int,
        generation: int,
        now_ms: int,
    ) -> dict[str, bytes]:
        """Return the assignment of each member.

        If a member has read more of the configurations than this worker, all get CONFIG_MISMATCH. A
        member whose metadata cannot be read gets nothing to do.
        """
        known = _decoded(members)
        version = VERSIONS[protocol]
        urls = {member: each.url for member, each in known.items()}
        offset = max((each.config_offset for each in known.values()), default=-1)
        error = NO_ERROR
        if log.offset < offset:
            error = CONFIG_MISMATCH
        else:
            offset = log.offset
        new: dict[str, Work] = {}
        revoked: dict[str, Work] = {}
        delay_ms = 0
        if error == NO_ERROR and protocol == EAGER:
            new = spread(configured(log), sorted(known))
            self._held = new
        elif error == NO_ERROR:
            current = {
                m: Work() if each.current is None else each.current.work.copy()
                for m, each in known.items()
            }
            found = self._assignor.assign(
                configured(log),
                current,
                last_generation=last_generation,
                generation=generation,
                now_ms=now_ms,
            )
            new, revoked, delay_ms = found.assigned, found.revoked, found.delay_ms
            self._held = found.held
        self._urls = urls
        return {
            member: encode_assignment(
                Assignment(
                    error,
                    leader,
                    urls.get(leader, ""),
                    offset,
                    new.get(member, Work()),
                    revoked.get(member, Work()),
                    delay_ms,
                    version,
                )
            )
            for member in members
        }


def _decoded(members: Mapping[str, bytes]) -> dict[str, Metadata]:
    found = {}
    for member, data in members.items():
        try:
            found[member] = decode_metadata(data)
        except MalformedError:
            continue
    return found


def configured(log: ConfigLog) -> Work:
    """Return all connectors and tasks, by name."""
    names = sorted(log.connectors())
    return Work(names, [task for name in names for task in log.tasks(name)])


def spread(work: Work, members: list[str]) -> dict[str, Work]:
    """Deal out connectors, then tasks, one after the other (the protocol `default`)."""
    found = {member: Work() for member in members}
    turn = 0
    for connector in work.connectors:
        found[members[turn % len(members)]].connectors.append(connector)
        turn += 1
    for task in work.tasks:
        found[members[turn % len(members)]].tasks.append(task)
        turn += 1
    return found
