"""What the herder of a distributed worker hears and does. `herder` has the machine between both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from odradek.core.connect.config_log import (
    Config,
    LogRecord,
    RestartRequest,
    SessionKey,
    TargetState,
    TaskId,
)
from odradek.core.connect.errors import ConnectError
from odradek.core.connect.status_log import Status, Subject

# -- requests ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Look:
    """Wait until no rebalance is expected, so that what this worker knows is good to show."""


@dataclass(frozen=True, slots=True)
class MergeConfig:
    """Return the configuration of a connector with some values changed. The leader does this."""

    name: str
    patch: Config


@dataclass(frozen=True, slots=True)
class PutConnector:
    """Create a connector, or change it. The configuration is valid. The leader does this.

    The answer is whether the connector is new.
    """

    name: str
    config: Config
    state: TargetState | None
    may_replace: bool


@dataclass(frozen=True, slots=True)
class DeleteConnector:
    """Delete a connector. The leader does this."""

    name: str


@dataclass(frozen=True, slots=True)
class SetState:
    """Pause or resume a connector. Any worker does this."""

    name: str
    state: TargetState


@dataclass(frozen=True, slots=True)
class StopConnectorAndTasks:
    """Stop a connector, and delete its tasks. The leader does this."""

    name: str


@dataclass(frozen=True, slots=True)
class RestartConnector:
    """Start the code of a connector again. The worker that runs it does this."""

    name: str


@dataclass(frozen=True, slots=True)
class RestartTask:
    """Start a task again. The worker that runs it does this."""

    task: TaskId


@dataclass(frozen=True, slots=True)
class RestartMany:
    """Let all workers restart their part of a connector. The leader does this."""

    request: RestartRequest


@dataclass(frozen=True, slots=True)
class PutTasks:
    """Take the configurations of tasks that another worker's connector has made. The leader does this."""

    name: str
    configs: Sequence[Config]


@dataclass(frozen=True, slots=True)
class FenceTasks:
    """Let the tasks of earlier configurations write no more (KIP-618). The leader does this."""

    name: str


@dataclass(frozen=True, slots=True)
class CheckTask:
    """Check that a task is still this worker's, and that its configuration is the last (KIP-618)."""

    task: TaskId
    generation: int


@dataclass(frozen=True, slots=True)
class MayChangeOffsets:
    """Check that the offsets of a connector can be changed. The leader does this."""

    name: str
    must_fence: bool


@dataclass(frozen=True, slots=True)
class SetClusterLogger:
    """Set the level of a logger on all workers."""

    name: str
    level: str


Request = (
    Look
    | MergeConfig
    | PutConnector
    | DeleteConnector
    | SetState
    | StopConnectorAndTasks
    | RestartConnector
    | RestartTask
    | RestartMany
    | PutTasks
    | FenceTasks
    | CheckTask
    | MayChangeOffsets
    | SetClusterLogger
)


class Redirect(ConnectError):
    """Another worker must answer the request. `url` is its address; None if it is not known."""

    def __init__(self, message: str, url: str | None) -> None:
        super().__init__(message)
        self.url = url


# -- events -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed."""


@dataclass(frozen=True, slots=True)
class Started:
    """The topics are read to their ends. The worker joins its group."""


@dataclass(frozen=True, slots=True)
class ConfigRead:
    """A record of the topic of configurations was read."""

    key: str
    value: bytes | None
    offset: int


@dataclass(frozen=True, slots=True)
class Done:
    """An action with a `token` is done, or has failed."""

    token: int
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class Rebalancing:
    """The worker is about to join its group again. With `is_lost` the group has removed it before."""

    is_lost: bool = False


@dataclass(frozen=True, slots=True)
class AssignWanted:
    """The worker leads its group, and makes the assignments. `members` have their metadata."""

    protocol: str
    members: Mapping[str, bytes]
    member_id: str
    generation: int


@dataclass(frozen=True, slots=True)
class Assigned:
    """The worker is in a generation of its group."""

    protocol: str
    member_id: str
    generation: int
    assignment: bytes


@dataclass(frozen=True, slots=True)
class CoordinatorLost:
    """The coordinator has not answered for so long that others may run what this worker runs."""


@dataclass(frozen=True, slots=True)
class Asked:
    """Somebody wants an answer."""

    number: int
    request: Request


@dataclass(frozen=True, slots=True)
class ConnectorStarted:
    """A connector that runs here has started, or asks for new tasks."""

    name: str


@dataclass(frozen=True, slots=True)
class TasksMade:
    """A connector that runs here has made configurations of tasks, or has failed to."""

    name: str
    configs: Sequence[Config]
    error: Exception | None = None
    is_final: bool = False
    """Whether the error would come again."""


@dataclass(frozen=True, slots=True)
class TasksSent:
    """The leader has taken configurations of tasks, or not."""

    name: str
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class Fenced:
    """The producers of earlier tasks are fenced, or not."""

    name: str
    error: Exception | None = None


Event = (
    Tick
    | Started
    | ConfigRead
    | Done
    | Rebalancing
    | AssignWanted
    | Assigned
    | CoordinatorLost
    | Asked
    | ConnectorStarted
    | TasksMade
    | TasksSent
    | Fenced
)

# -- actions ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Write:
    """Write records to the topic of configurations, and read them back. Then comes `Done`.

    Privileged records are written in one transaction if the cluster has exactly-once sources. If another
    worker has taken the privilege, the error is `NotPrivilegedError`.
    """

    token: int
    records: Sequence[LogRecord]
    is_privileged: bool
    reads_back: bool = True


@dataclass(frozen=True, slots=True)
class ReadToEnd:
    """Read the topic of configurations to its present end. Then comes `Done`."""

    token: int
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class ClaimPrivilege:
    """Become the only worker that writes privileged records. Then comes `Done`."""

    token: int


@dataclass(frozen=True, slots=True)
class Join:
    """Join the group, or join it again."""


@dataclass(frozen=True, slots=True)
class Leave:
    """Leave the group."""

    reason: str


@dataclass(frozen=True, slots=True)
class GoOn:
    """What the last event of the group asked for is done. The metadata are for the next join."""

    metadata: Sequence[tuple[str, bytes]]


@dataclass(frozen=True, slots=True)
class SendAssignments:
    """Send the assignments that the leader has made."""

    generation: int
    assignments: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class Reply:
    """Answer a request."""

    number: int
    value: Any = None
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class StartConnector:
    """Start a connector. If it runs, `ConnectorStarted` comes. With `number` a request waits for this."""

    name: str
    config: Config
    state: TargetState
    number: int | None = None


@dataclass(frozen=True, slots=True)
class StopConnector:
    """Stop a connector."""

    name: str


@dataclass(frozen=True, slots=True)
class ChangeState:
    """Pause, resume or stop a connector and its tasks that run here."""

    name: str
    state: TargetState


@dataclass(frozen=True, slots=True)
class StartTask:
    """Start a task."""

    task: TaskId
    connector: Config
    config: Config
    state: TargetState
    generation: int
    number: int | None = None


@dataclass(frozen=True, slots=True)
class StopTasks:
    """Stop tasks."""

    tasks: Sequence[TaskId]


@dataclass(frozen=True, slots=True)
class MakeTasks:
    """Ask a connector for the configurations of its tasks. Then comes `TasksMade`."""

    name: str


@dataclass(frozen=True, slots=True)
class SendTasks:
    """Send configurations of tasks to the leader. Then comes `TasksSent`."""

    name: str
    url: str
    configs: Sequence[Config]
    key: SessionKey | None


@dataclass(frozen=True, slots=True)
class FenceProducers:
    """Fence the producers of the tasks with numbers below `count`. Then comes `Fenced`."""

    name: str
    count: int


@dataclass(frozen=True, slots=True)
class WriteStatus:
    """Write the state of a connector or a task."""

    subject: Subject
    status: Status


@dataclass(frozen=True, slots=True)
class ForgetTopics:
    """Forget which topics a connector uses."""

    name: str


@dataclass(frozen=True, slots=True)
class FlushStatuses:
    """Wait until the states that were written are in their topic."""


@dataclass(frozen=True, slots=True)
class SetLogger:
    """Set the level of a logger of this worker."""

    name: str
    level: str


Action = (
    Write
    | ReadToEnd
    | ClaimPrivilege
    | Join
    | Leave
    | GoOn
    | SendAssignments
    | Reply
    | StartConnector
    | StopConnector
    | ChangeState
    | StartTask
    | StopTasks
    | MakeTasks
    | SendTasks
    | FenceProducers
    | WriteStatus
    | ForgetTopics
    | FlushStatuses
    | SetLogger
)


class NotPrivilegedError(ConnectError):
    """Another worker has become the one that writes privileged records."""
