"""Cleaning in tests: a worker in the same process, and single rounds."""

from __future__ import annotations

import json

from tests.log.support import LogWorkspace

from odradek.log import PartitionLog
from odradek.log.cleaner.facts import facts_of, work_item
from odradek.log.cleaner.planning import find_cleanable
from odradek.log.cleaner.round import Round
from odradek.log.cleaner.work import Done, Failed, Message, WorkItem, decode_item
from odradek.log.errors import DamagedFile
from odradek.records.errors import RecordsError

COMPACTED = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": 0.01,
    "segment_bytes": 2000,
    "index_interval_bytes": 200,
    "file_delete_delay_ms": 0,
    "delete_retention_ms": 1000,
}


class InlineChild:
    """A worker that cleans when its messages are received."""

    def __init__(self, file_system) -> None:
        self.file_system = file_system
        self.items: list[WorkItem] = []
        self.lines: list[dict] = []
        self.is_alive = True

    def send(self, line: bytes) -> None:
        command = json.loads(line)
        self.lines.append(command)
        if "clean" in command:
            self.items.append(decode_item(command["clean"]))

    def receive(self) -> list[Message]:
        return [message for item in self.items.copy() for message in self.work(item)]

    def work(self, item: WorkItem) -> list[Message]:
        self.items.remove(item)
        messages: list[Message] = []
        try:
            round_ = Round(self.file_system, item, lambda _: None)
            end = round_.run(messages.append)
        except OSError as error:
            return [*messages, Failed(item.number, str(error), True)]
        except (DamagedFile, RecordsError) as error:
            return [*messages, Failed(item.number, str(error), False)]
        tally = round_.tally
        done = Done(
            item.number,
            end,
            tally.bytes_read,
            tally.bytes_written,
            tally.records_read,
            tally.records_kept,
            round_.map.utilization,
            0,
        )
        return [*messages, done]

    def kill(self) -> None:
        self.is_alive = False


def clean(
    log: PartitionLog,
    workspace: LogWorkspace,
    entries_max: int | None = None,
    round_type: type[Round] = Round,
) -> int:
    """Run one round. Return the offset up to which the log is clean."""
    from tests.log.support import BROKER_CONFIG

    cleanable = find_cleanable(facts_of(log), workspace.clock.now_ms())
    item = work_item(log, cleanable, BROKER_CONFIG, 1, 1e300)
    item.map_entries_max = entries_max
    round_ = round_type(workspace.file_system, item, lambda _: None)
    end = round_.run(lambda message: log.replace_segments(message.old, message.size))
    log.cleaning.cleaned_to(end)
    return end


def clean_wholly(log: PartitionLog, workspace: LogWorkspace, entries_max: int | None = None) -> int:
    """Run rounds until the log is clean. Return the first dirty offset."""
    while True:
        cleanable = find_cleanable(facts_of(log), workspace.clock.now_ms())
        if cleanable.dirty_bytes == 0:
            return log.cleaning.first_dirty_offset
        clean(log, workspace, entries_max)
