"""How an application is doing: its members, tasks, lag, and how far stores are restored.

Members and lag come from the group. How far a task is restored is known by its process only, which is asked if
it has an endpoint (`application.server`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from odradek.client.admin.admin import Admin
from odradek.client.admin.groups import Group, Member
from odradek.client.errors import ClientError
from odradek.client.offsets import EARLIEST, LATEST, READ_COMMITTED
from odradek.core.streams.topology.definition import Topology
from odradek.model.topic_partition import TopicPartition
from odradek.streams.queries.client import ask
from odradek.streams.queries.errors import QueryError

ACTIVE = "active"
STANDBY = "standby"
RESTORING = "restoring"
_ASK_SECONDS = 3.0


class TaskStatus(NamedTuple):
    """A task of a member."""

    id: str
    role: str
    """`active`, `standby` or `restoring`. Without an endpoint, a task that is restored is `active`."""
    member: str
    lag: int | None
    """How many records of its topics are not processed; None for standby tasks, and for tasks that this topology
    does not have."""
    restored: int | None
    """Up to where its changelogs have been read, if it is restored and its process has said so."""
    restored_end: int | None


class MemberStatus(NamedTuple):
    """A member of the group."""

    id: str
    client_id: str
    host: str
    endpoint: str
    """HOST:PORT, or empty."""
    active: int
    standby: int


class ApplicationStatus(NamedTuple):
    """An application that may run."""

    group: str
    type: str
    state: str
    members: list[MemberStatus]
    tasks: list[TaskStatus]
    unassigned: list[str]
    """Tasks that no member has."""


def read_status(topology: Topology, admin: Admin) -> ApplicationStatus:
    """Return how an application is doing.

    Raises:
        ClientError: the group does not exist, or the cluster cannot be asked.
    """
    (group,) = admin.describe_groups([topology.application_id]).values()
    sources = {each.number: each.source_topics for each in topology.subtopologies()}
    lags = _lags(admin, group.id, {topic for topics in sources.values() for topic in topics})
    counts = {
        number: max((place.partition + 1 for place in lags if place.topic in topics), default=0)
        for number, topics in sources.items()
    }
    names = [f"{number}_{index}" for number in sorted(counts) for index in range(counts[number])]
    tasks: list[TaskStatus] = []
    members: list[MemberStatus] = []
    for member in group.members:
        active, standby = _tasks_of(member, sources)
        members.append(
            MemberStatus(
                member.id,
                member.client_id,
                member.host,
                member.endpoint,
                len(active),
                len(standby),
            )
        )
        restoring = _restoring(member.endpoint)
        for name in active:
            role = RESTORING if restoring.get(name, {}).get("role") == RESTORING else ACTIVE
            tasks.append(_task(name, role, member, restoring, _lag(name, sources, lags)))
        tasks += [_task(name, STANDBY, member, restoring, None) for name in standby]
    assigned = {each.id for each in tasks if each.role != STANDBY}
    return ApplicationStatus(
        group.id,
        group.type,
        group.state,
        members,
        sorted(tasks, key=_order),
        [name for name in names if name not in assigned],
    )


def endpoints_of(group: Group) -> list[str]:
    """Return where the processes of an application answer queries."""
    return sorted({each.endpoint for each in group.members if each.endpoint})


def _order(task: TaskStatus) -> tuple[int, int, str]:
    number, _, partition = task.id.partition("_")
    return int(number), int(partition), task.role


def _task(
    name: str, role: str, member: Member, progress: Mapping[str, Mapping[str, Any]], lag: int | None
) -> TaskStatus:
    known = progress.get(name, {})
    return TaskStatus(name, role, member.id, lag, known.get("position"), known.get("end"))


def _tasks_of(member: Member, sources: Mapping[int, list[str]]) -> tuple[list[str], list[str]]:
    """Return the ids of active and standby tasks. A member of a classic group has partitions."""
    held = member.tasks
    active = {str(each) for each in held.active}
    for place in member.partitions:
        active.update(
            f"{number}_{place.partition}"
            for number, topics in sources.items()
            if place.topic in topics
        )
    return sorted(active), sorted(str(each) for each in (*held.standby, *held.warm_up))


def _lag(
    name: str, sources: Mapping[int, list[str]], lags: Mapping[TopicPartition, int]
) -> int | None:
    number, _, partition = name.partition("_")
    topics = sources.get(int(number))
    if topics is None:  # the group runs another version of the application
        return None
    return sum(lags.get(TopicPartition(topic, int(partition)), 0) for topic in topics)


def _lags(admin: Admin, group: str, topics: Iterable[str]) -> dict[TopicPartition, int]:
    """Return how many records of each partition are not processed."""
    existing = {each.name: len(each.partitions) for each in admin.list_topics()}
    places = [
        TopicPartition(topic, index)
        for topic in sorted(topics)
        for index in range(existing.get(topic, 0))
    ]
    if not places:
        return {}
    committed = admin.list_consumer_group_offsets(group, places)
    firsts = admin.list_offsets(dict.fromkeys(places, EARLIEST))
    ends = admin.list_offsets(dict.fromkeys(places, LATEST), isolation=READ_COMMITTED)
    found = {}
    for place in places:
        at = committed.get(place)
        begin = max(firsts[place].offset, 0 if at is None else at.offset)
        found[place] = max(0, ends[place].offset - begin)
    return found


def _restoring(endpoint: str) -> dict[str, dict[str, Any]]:
    """Return what a process says of its tasks by their ids; nothing if it cannot be asked."""
    if not endpoint:
        return {}
    try:
        answer = ask(endpoint, "/status", {}, _ASK_SECONDS)
    except QueryError:
        return {}
    if answer.status != 200 or not isinstance(answer.body, dict):
        return {}
    return {each["id"]: each for each in answer.body.get("tasks", ())}


def endpoints(admin: Admin, group_id: str) -> list[str]:
    """Return where the processes of an application answer queries.

    Raises:
        QueryError: the application does not run, or its processes have no endpoint.
    """
    try:
        (group,) = admin.describe_groups([group_id]).values()
    except ClientError as error:
        raise QueryError(f"the application {group_id} does not run: {error}") from error
    found = endpoints_of(group)
    if not found:
        raise QueryError(
            f"no process of {group_id} answers queries: run it with group_protocol=streams and "
            "application_server=HOST:PORT"
        )
    return found
