"""The running form of a processor: it gets a record, and forwards records to its children."""

from __future__ import annotations

from odradek.core.streams.model.context import TaskContext
from odradek.core.streams.model.errors import StreamsError
from odradek.core.streams.model.records import Record, RecordContext


class Node:
    """A processor in a task. A record is processed depth first: it visits all children in the order
    in which they were added, before `forward` returns."""

    def __init__(self) -> None:
        self.name = ""
        self.context: TaskContext = _NO_CONTEXT
        self.children: list[Node] = []

    def attach(self, name: str, context: TaskContext) -> None:
        """Set the name and the task."""
        self.name = name
        self.context = context

    def add_child(self, child: Node) -> None:
        """Add a node that gets what this one forwards."""
        self.children.append(child)

    def init(self) -> None:
        """Find the stores. Called once, after all stores have been restored."""

    def process(self, record: Record) -> None:
        """Process one record."""
        raise NotImplementedError

    def close(self) -> None:
        """Free what the processor holds. Called once."""

    def forward(self, record: Record) -> None:
        """Pass a record to all children."""
        context = self.context
        before = context.record
        if record.timestamp != before.timestamp or record.headers is not before.headers:
            context.enter(_at(before, record))
            self._visit(record, self.children)
            context.enter(before)
        else:
            self._visit(record, self.children)

    def forward_to(self, child: Node, record: Record) -> None:
        """Pass a record to one child."""
        before = self.context.record
        self.context.enter(_at(before, record))
        self._visit(record, [child])
        self.context.enter(before)

    def _visit(self, record: Record, children: list[Node]) -> None:
        for child in children:
            try:
                child.process(record)
            except StreamsError:
                raise
            except Exception as error:  # noqa: BLE001 - the program's functions raise anything
                self.context.failed(child.name, record, error)


def _at(before: RecordContext, record: Record) -> RecordContext:
    """Return where a record comes from, with its own time and headers."""
    return RecordContext(
        before.topic, before.partition, before.offset, record.timestamp, record.headers
    )


_NO_CONTEXT = TaskContext("", 0, 0)
