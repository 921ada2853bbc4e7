"""What the nodes and stores of a task share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from odradek.core.streams.model.errors import ProcessingError, StreamsError
from odradek.core.streams.model.records import Headers, Produced, Record, RecordContext

NO_RECORD = RecordContext(None, -1, -1, -1, ())


class Scheduler(Protocol):
    """Calls functions of processors at times."""

    def schedule(
        self, interval_ms: int, by_stream_time: bool, call: Callable[[int], None]
    ) -> Callable[[], None]:
        """Call `call(time)` in intervals. Return a function that ends this."""
        ...


ProcessingHandler = Callable[["TaskContext", str, Record, Exception], bool]
"""Gets the context, the node's name, the record and the error. Returns whether to continue."""


class TaskContext:
    """The state that the nodes of one task share: the current record, the time, and the output.

    `record` is where the record comes from that is processed now. It has the time and the headers
    of the record at the current node, because stores write both to changelogs.
    """

    def __init__(self, application_id: str, subtopology: int, partition: int) -> None:
        self.application_id = application_id
        self.subtopology = subtopology
        self.partition = partition
        self.record = NO_RECORD
        self.now_ms = 0
        self.output: list[Produced] = []
        self.stores: dict[str, Any] = {}
        self.settings: dict[str, Any] = {}
        self.dropped: dict[str, int] = {}
        self.scheduler: Scheduler | None = None
        self.handler: ProcessingHandler | None = None
        self.metadata: dict[str, int] = {}
        """What is committed with the offsets: up to when windows have been emitted."""
        self.shared: dict[object, Any] = {}
        """What the two sides of a join share, by their definition."""
        self.commit_requested = False
        self.is_global = False

    @property
    def task_id(self) -> str:
        """The subtopology and the partition, as Kafka Streams writes them."""
        return f"{self.subtopology}_{self.partition}"

    def enter(self, record: RecordContext) -> None:
        """Set where the current record comes from."""
        self.record = record

    def set_time(self, now_ms: int) -> None:
        """Set the wall-clock time in milliseconds since 1970."""
        self.now_ms = now_ms

    def use_scheduler(self, scheduler: Scheduler) -> None:
        """Set who calls punctuators."""
        self.scheduler = scheduler

    def use_handler(self, handler: ProcessingHandler | None) -> None:
        """Set what happens with errors of the program's functions."""
        self.handler = handler

    def take_output(self) -> list[Produced]:
        """Return the records that were produced since the last call."""
        taken = self.output
        self.output = []
        return taken

    def drop(self, reason: str) -> None:
        """Count a record that is skipped, for instance because it has no key."""
        self.dropped[reason] = self.dropped.get(reason, 0) + 1

    def request_commit(self) -> None:
        """Ask for a commit soon."""
        self.commit_requested = True

    def committed(self) -> None:
        """Note that a commit took place."""
        self.commit_requested = False

    def failed(self, node: str, record: Record, error: Exception) -> None:
        """Handle an error of the program.

        Raises:
            ProcessingError: unless the program's handler wants to continue.
        """
        if isinstance(error, StreamsError):
            raise error
        if self.handler is not None and self.handler(self, node, record, error):
            self.drop("errors")
            return
        raise ProcessingError(node, where(self.record), error) from error

    def store(self, name: str) -> Any:
        """Return a store of this task.

        Raises:
            StreamsError: there is no such store.
        """
        found = self.stores.get(name)
        if found is None:
            raise StreamsError(f"task {self.task_id} has no store {name!r}")
        return found


def where(record: RecordContext) -> str:
    """Return the place of a record as text."""
    if record.topic is None:
        return f"time {record.timestamp} (a punctuator)"
    return f"{record.topic}-{record.partition} offset {record.offset}"


def headers_of(headers: Headers | list[tuple[str, bytes | None]] | None) -> Headers:
    """Return headers as a tuple."""
    return tuple(headers) if headers else ()
