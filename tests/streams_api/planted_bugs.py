"""Bugs for the comparison with Kafka Streams to find: each is a small edit of one method.

A bug is found if a history gets another result than without it: then it differs from Kafka Streams'
result, which `test_kafka_streams.py` and `make proofs` compare for the same histories.
"""

from __future__ import annotations

import inspect
import textwrap
from contextlib import contextmanager
from importlib import import_module
from typing import NamedTuple

CORE = "odradek.core.streams."


class Bug(NamedTuple):
    module: str
    method: str
    correct: str
    wrong: str


BUGS = {
    "a session ends when its last record is as old as the delay": Bug(
        "processors.sessions",
        "SessionAggregateNode.process",
        "if end < close_time",
        "if end <= close_time",
    ),
    "merged sessions leave no tombstones": Bug(
        "processors.sessions",
        "SessionAggregateNode.process",
        "self._update(session, value, None)",
        "pass",
    ),
    "a window accepts records one millisecond after its grace period": Bug(
        "processors.windowed",
        "WindowAggregateNode.process",
        "end <= close_time",
        "end < close_time",
    ),
    "lateness is judged by the record's own time": Bug(
        "processors.windowed",
        "WindowAggregateNode.process",
        "close_time = self._observed",
        "close_time = timestamp",
    ),
    "the time of an aggregate is that of its last record": Bug(
        "processors.aggregates",
        "StreamAggregateNode.process",
        "timestamp = max(timestamp, found.timestamp)",
        "pass",
    ),
    "the first old value is null": Bug(
        "processors.aggregates",
        "StreamAggregateNode.process",
        "Change(new, old if self._sends_old else None",
        "Change(new, old if self._sends_old and found else None",
    ),
    "a table's group gets two records although the key is the same": Bug(
        "processors.aggregates", "TableRegroupNode.process", "old[0] == new[0]", "False"
    ),
    "old values are not subtracted": Bug(
        "processors.aggregates",
        "TableAggregateNode.process",
        "change.old is not None and old is not None",
        "False",
    ),
    "the right window of a sliding aggregation is forgotten": Bug(
        "processors.sliding",
        "SlidingAggregateNode._regular",
        "self._copy(record, right)",
        "pass",
    ),
    "early sliding windows begin before 0": Bug(
        "processors.sliding",
        "SlidingAggregateNode.process",
        "if time < self._difference",
        "if time < 0",
    ),
    "a left join of streams answers at once": Bug(
        "processors.stream_joins",
        "StreamJoinNode.process",
        "self._unmatched is None or last < times.stream_time",
        "True",
    ),
    "records without partner ignore the grace period": Bug(
        "processors.stream_joins",
        "StreamJoinNode._emit_unmatched",
        "look_back + grace",
        "look_back",
    ),
    "records without partner use the window of the other side": Bug(
        "processors.stream_joins",
        "StreamJoinNode._emit_unmatched",
        "join.window.after_ms if is_left else join.window.before_ms",
        "join.window.before_ms if is_left else join.window.after_ms",
    ),
    "a record that has joined is emitted alone too": Bug(
        "processors.stream_joins",
        "StreamJoinNode.process",
        "if self._unmatched is not None:\n            self._unmatched.remove_if_present",
        "if False:\n            self._unmatched.remove_if_present",
    ),
    "a join has the time of the record that caused it": Bug(
        "processors.stream_joins",
        "StreamJoinNode.process",
        "max(time, other_time)",
        "time",
    ),
    "a join of tables has the time of the change": Bug(
        "processors.table_joins",
        "TableJoinNode.process",
        "max(record.timestamp, other_time)",
        "record.timestamp",
    ),
    "a left join sends a change from nothing to nothing": Bug(
        "processors.table_joins",
        "TableJoinNode.process",
        "not self._keeps_this or (change.new is None and change.old is None)",
        "not self._keeps_this",
    ),
    "a filtered row that was not there sends a tombstone": Bug(
        "processors.tables",
        "ChildTableNode.process",
        "old is None and new is None",
        "False",
    ),
    "a changed foreign key keeps the old subscription": Bug(
        "processors.foreign_keys",
        "SubscribeNode._inner",
        "self._send(record, old, DELETE)\n",
        "pass\n",
    ),
    "a foreign-key left join asks twice on a deletion": Bug(
        "processors.foreign_keys",
        "SubscribeNode._left",
        "self._send(record, old, DELETE)",
        "self._send(record, old, DELETE_AND_ANSWER)",
    ),
    "a versioned table is read at its newest version": Bug(
        "processors.lookup_joins",
        "LookupJoinNode._do",
        "table.is_versioned",
        "False",
    ),
    "a late version behind a tombstone is the latest": Bug(
        "stores.versioned",
        "VersionedStore._put",
        "versions.times[-1] == timestamp",
        "versions.values[-1] is None or versions.times[-1] == timestamp",
    ),
    "an update gives a suppressed row a new place": Bug(
        "processors.suppress",
        "SuppressNode.process",
        "self._observed = max(self._observed, record.timestamp)",
        "self._observed = record.timestamp",
    ),
    "suppress waits one millisecond longer": Bug(
        "processors.suppress",
        "SuppressNode.process",
        "buffer.first_time() <= limit",
        "buffer.first_time() < limit",
    ),
    "the cache writes its newest update first": Bug(
        "stores.cache",
        "StoreCache._write",
        "for key, entry in entries",
        "for key, entry in reversed(entries)",
    ),
    "the cache keeps one entry more than fits": Bug(
        "stores.cache", "RecordCache.make_room", "while len(cache)", "while len(cache) > 1"
    ),
    "a missed punctuation is called once for each interval": Bug(
        "punctuation", "_Schedule.advance", "if now >= following", "if False"
    ),
    "a task does not wait for an empty partition": Bug(
        "partition_group", "PartitionGroup.is_ready", "return False", "continue"
    ),
    "the time of a partition goes back": Bug(
        "partition_group",
        "PartitionQueue.poll",
        "max(self.time, head.context.timestamp)",
        "head.context.timestamp",
    ),
    "a window of memory is kept one millisecond too long": Bug(
        "stores.window", "WindowStore._range", "+ 1", ""
    ),
    "hopping windows lack the first": Bug(
        "processors.windowed",
        "WindowAggregateNode.process",
        "windows.starts_for(timestamp)",
        "windows.starts_for(timestamp)[-1:]",
    ),
    "a removed subscription answers nothing": Bug(
        "processors.foreign_keys",
        "AnswerNode.process",
        "instruction == DELETE or",
        "instruction in (DELETE, DELETE_AND_ANSWER) or",
    ),
}


@contextmanager
def planted(bug):
    """Replace the method while the block runs."""
    module = import_module(CORE + bug.module)
    owner, name = bug.method.split(".")
    owner = getattr(module, owner)
    before = owner.__dict__[name]
    source = textwrap.dedent(inspect.getsource(before))
    correct, wrong = textwrap.dedent(bug.correct), bug.wrong
    assert correct in source, f"{bug.method} has no {correct!r}"
    namespace = {}
    exec(
        compile(source.replace(correct, wrong), f"<{bug.method}>", "exec"),
        module.__dict__,
        namespace,
    )
    setattr(owner, name, namespace[name])
    try:
        yield
    finally:
        setattr(owner, name, before)
