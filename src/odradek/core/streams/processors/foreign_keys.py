"""Joins of two tables by a foreign key of the left one.

A change of the left table sends a *subscription* through a topic to the task that has the row of the
right table: it says which left row wants to know the right one. That task answers through a second
topic, at once and with each change of the right row. The answer has a hash of the left row, and is
dropped if the left row has changed meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Any, NamedTuple

from odradek.core.streams.model.errors import EncodingError
from odradek.core.streams.model.murmur3 import hash128
from odradek.core.streams.model.node import Node
from odradek.core.streams.model.records import UNKNOWN_TIME, Change, Record
from odradek.core.streams.model.serdes import Serde
from odradek.core.streams.processors.base import Definition, Getter, View
from odradek.core.streams.stores.key_value import KeyValueStore

DELETE = 0
"""Forget the subscription, and answer nothing."""
DELETE_AND_ANSWER = 1
"""Forget the subscription, and answer that there is no right row."""
ANSWER_ALWAYS = 2
"""Answer with the right row, or that there is none."""
ANSWER_IF_FOUND = 3
"""Answer with the right row if there is one."""

_INT = Struct(">i")
_NO_HASH = 0x80
_VERSION = 1


class Subscription(NamedTuple):
    """What the left table sends: the hash of its row, what to do, the row's key and partition."""

    hash: bytes | None
    instruction: int
    key: Any
    partition: int | None


class Answer(NamedTuple):
    """What the right table answers: the hash of the left row, and the right row."""

    hash: bytes | None
    value: Any
    partition: int | None = None


class SubscriptionSerde(Serde):
    """Version and flag (1 byte), instruction (1), hash (16, or none), key, partition (4)."""

    def __init__(self, key: Serde) -> None:
        self.name = "Subscription"
        self.kind = Subscription
        self._key = key

    def encode(self, value: Any) -> bytes | None:
        """Return the bytes of a subscription."""
        if value is None:
            return None
        key = self._key.encode(value.key)
        assert key is not None
        head = _VERSION if value.hash is not None else _VERSION | _NO_HASH
        found: bytes = value.hash or b""
        return bytes((head, value.instruction)) + found + key + _INT.pack(value.partition)

    def decode(self, data: bytes | None) -> Any:
        """Return the subscription."""
        if data is None:
            return None
        version = data[0] & 0x7F
        start = 2
        found: bytes | None = None
        if not data[0] & _NO_HASH:
            found = data[2:18]
            start = 18
        if version > _VERSION:
            raise EncodingError(f"a subscription has the unknown version {version}")
        if version == 0:
            return Subscription(found, data[1], self._key.decode(data[start:]), None)
        partition = _INT.unpack_from(data, len(data) - 4)[0]
        return Subscription(found, data[1], self._key.decode(data[start:-4]), partition)


class AnswerSerde(Serde):
    """Version and flag (1 byte), hash (16, or none), value (none if there are no more bytes)."""

    def __init__(self, value: Serde) -> None:
        self.name = "Answer"
        self.kind = Answer
        self._value = value

    def encode(self, value: Any) -> bytes | None:
        """Return the bytes of an answer."""
        if value is None:
            return None
        data = self._value.encode(value.value) or b""
        if value.hash is None:
            return bytes((_NO_HASH,)) + data
        found: bytes = value.hash
        return b"\x00" + found + data

    def decode(self, data: bytes | None) -> Any:
        """Return the answer."""
        if data is None:
            return None
        if data[0] & 0x7F:
            raise EncodingError(f"an answer has the unknown version {data[0] & 0x7F}")
        start = 1 if data[0] & _NO_HASH else 17
        rest = data[start:]
        value = self._value.decode(rest) if rest else None
        return Answer(None if start == 1 else data[1:17], value)


class ForeignJoin:
    """What the parts of a join share."""

    def __init__(
        self,
        *,
        left: View,
        right: View,
        extractor: Callable[[Any, Any], Any],
        joiner: Callable[[Any, Any, Any], Any],
        keeps_left: bool,
        store: str,
        key: Serde,
        foreign_key: Serde,
        value: Serde,
    ) -> None:
        self.left = left
        self.right = right
        self.extractor = extractor
        self.joiner = joiner
        self.keeps_left = keeps_left
        self.store = store
        self.key = key
        self.foreign_key = foreign_key
        self.value = value

    def use_store(self, store: str) -> None:
        """Set the name of the store of subscriptions."""
        self.store = store

    def hash_of(self, value: Any) -> bytes | None:
        """Return the hash of a left row."""
        data = self.value.encode(value)
        return None if data is None else hash128(data)

    def prefix(self, foreign_key: Any) -> bytes:
        """Return the first bytes of the keys of a right row's subscriptions."""
        data = self.foreign_key.encode(foreign_key)
        assert data is not None
        return _INT.pack(len(data)) + data

    def place(self, foreign_key: Any, key: Any) -> bytes:
        """Return the key of a subscription in the store."""
        data = self.key.encode(key)
        assert data is not None
        return self.prefix(foreign_key) + data


class Part(Definition):
    """A processor of a join that is behind a table."""

    def __init__(self, join: ForeignJoin, make: Callable[[ForeignJoin, bool], Node]) -> None:
        self._join = join
        self._make = make
        self.uses_versions = False

    def use_versions(self) -> None:
        """Know that the table is versioned: changes behind newer ones are dropped."""
        self.uses_versions = True

    def make(self) -> Node:
        """Return the node for one task."""
        return self._make(self._join, self.uses_versions)


class SubscribeNode(Node):
    """Turns the changes of the left table into subscriptions."""

    def __init__(self, join: ForeignJoin, uses_versions: bool) -> None:
        super().__init__()
        self._join = join
        self._uses_versions = uses_versions

    def process(self, record: Record) -> None:
        """Send what the change needs."""
        change: Change = record.value
        if self._uses_versions and not change.is_latest:
            return
        join = self._join
        old = None if change.old is None else join.extractor(record.key, change.old)
        new = None if change.new is None else join.extractor(record.key, change.new)
        if join.keeps_left:
            self._left(record, change, old, new)
        else:
            self._inner(record, change, old, new)

    def _left(self, record: Record, change: Change, old: Any, new: Any) -> None:
        if change.old is None and change.new is None:
            return
        if old is not None and self._differ(old, new):
            self._send(record, old, DELETE)
        self._send(record, new, ANSWER_ALWAYS)

    def _inner(self, record: Record, change: Change, old: Any, new: Any) -> None:
        if new is None:
            if change.new is not None:
                self.context.drop("null foreign keys")
            if old is not None:
                self._send(record, old, DELETE_AND_ANSWER)
        elif old is not None and self._differ(old, new):
            self._send(record, old, DELETE)
            self._send(record, new, ANSWER_ALWAYS)
        else:
            self._send(record, new, ANSWER_IF_FOUND)

    def _differ(self, old: Any, new: Any) -> bool:
        encode = self._join.foreign_key.encode
        return encode(old) != encode(new)

    def _send(self, record: Record, foreign_key: Any, instruction: int) -> None:
        subscription = Subscription(
            self._join.hash_of(record.value.new),
            instruction,
            record.key,
            self.context.record.partition,
        )
        self.forward(Record(foreign_key, subscription, record.timestamp, record.headers))


class ReceiveNode(Node):
    """Stores subscriptions, or forgets them, and forwards them."""

    def __init__(self, join: ForeignJoin, _uses_versions: bool) -> None:
        super().__init__()
        self._join = join
        self._store: KeyValueStore | None = None

    def init(self) -> None:
        """Find the store."""
        store: KeyValueStore = self.context.store(self._join.store)
        self._store = store

    def process(self, record: Record) -> None:
        """Store the subscription. Without foreign key there is nothing to store."""
        subscription: Subscription = record.value
        if record.key is None:
            if subscription.instruction != ANSWER_ALWAYS:
                self.context.drop("null foreign keys")
                return
        else:
            assert self._store is not None
            place = self._join.place(record.key, subscription.key)
            if subscription.instruction in (DELETE, DELETE_AND_ANSWER):
                self._store.put(place, None, record.timestamp)
            else:
                self._store.put(place, subscription, record.timestamp)
        self.forward(record)


class AnswerNode(Node):
    """Answers a subscription."""

    def __init__(self, join: ForeignJoin, _uses_versions: bool) -> None:
        super().__init__()
        self._join = join
        self._right: Getter | None = None

    def init(self) -> None:
        """Find the store."""
        self._right = self._join.right.open(self.context)

    def process(self, record: Record) -> None:
        """Answer with the right row."""
        subscription: Subscription = record.value
        assert self._right is not None
        found = None if record.key is None else self._right.get(record.key)
        instruction = subscription.instruction
        if instruction == DELETE or (instruction == ANSWER_IF_FOUND and found is None):
            return
        value = None
        if found is not None and instruction != DELETE_AND_ANSWER:
            value = found.value
        time = max(record.timestamp, UNKNOWN_TIME if found is None else found.timestamp)
        answer = Answer(subscription.hash, value, subscription.partition)
        self.forward(Record(subscription.key, answer, time, record.headers))


class RightChangeNode(Node):
    """Answers all subscriptions of a right row that has changed."""

    def __init__(self, join: ForeignJoin, uses_versions: bool) -> None:
        super().__init__()
        self._join = join
        self._uses_versions = uses_versions
        self._store: KeyValueStore | None = None

    def init(self) -> None:
        """Find the store."""
        store: KeyValueStore = self.context.store(self._join.store)
        self._store = store

    def process(self, record: Record) -> None:
        """Answer with the new row."""
        if record.key is None:
            self.context.drop("null keys")
            return
        change: Change = record.value
        if self._uses_versions and not change.is_latest:
            return
        assert self._store is not None
        prefix = self._join.prefix(record.key)
        serde = self._store.definition.value
        for place, entry in list(self._store.between(prefix, _after(prefix))):
            if not place.startswith(prefix):
                continue
            subscription: Subscription = serde.decode(entry[0])
            key = self._join.key.decode(place[len(prefix) :])
            answer = Answer(subscription.hash, change.new, subscription.partition)
            self.forward(Record(key, answer, record.timestamp, record.headers))


def _after(prefix: bytes) -> bytes | None:
    """Return the first key that is behind all that begin with `prefix`."""
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes((kept[-1] + 1,)) if kept else None


class ResolveNode(Node):
    """Joins an answer with the left row, unless the row has changed since it asked."""

    def __init__(self, join: ForeignJoin, _uses_versions: bool) -> None:
        super().__init__()
        self._join = join
        self._left: Getter | None = None

    def init(self) -> None:
        """Find the store."""
        self._left = self._join.left.open(self.context)

    def process(self, record: Record) -> None:
        """Forward the joined row; None if there is no left row, or no right one in an inner join."""
        join = self._join
        answer: Answer = record.value
        assert self._left is not None
        found = self._left.get(record.key)
        left = None if found is None else found.value
        if answer.hash != join.hash_of(left):
            self.context.drop("stale answers of foreign-key joins")
            return
        result = None
        if answer.value is not None or (join.keeps_left and left is not None):
            result = join.joiner(record.key, left, answer.value)
        self.forward(record.with_value(result))
