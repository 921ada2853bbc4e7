"""A driver, with the verbs of drivers/README.md as methods."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from compat.lab.dialogue import Dialogue, Unsupported
from compat.lab.toolchain import ROOT

VALUE_SHOWN_MAX = 4096
SHARE_CLIENTS = ("java", "java-4.4", "librdkafka", "franz-go", "odradek", "odradek-aio")
"""The clients whose drivers have the verbs of share groups."""
Header = tuple[str, bytes | None]


@dataclass(frozen=True)
class Fill:
    """A value of `size` times the byte `x`: a short form of a large value."""

    size: int


@dataclass(frozen=True)
class Digest:
    """The size and hash of a large value that was read."""

    size: int
    sha256: str


@dataclass(frozen=True)
class Record:
    """A record to be written."""

    value: bytes | Fill | None = b""
    key: bytes | None = None
    headers: tuple[Header, ...] = ()
    timestamp: int | None = None
    partition: int = 0

    def as_json(self) -> dict[str, Any]:
        """The record in the drivers' protocol."""
        value: Any = {"fill": self.value.size} if isinstance(self.value, Fill) else None
        return {
            "partition": self.partition,
            "key": _encoded(self.key),
            "value": value if isinstance(self.value, Fill) else _encoded(self.value),
            "headers": [[name, _encoded(content)] for name, content in self.headers],
            "timestamp": self.timestamp,
        }

    def content(self) -> tuple[object, ...]:
        """The part that every reader must return: everything except offset and timestamp."""
        return (self.partition, self.key, shown(self.value), self.headers)


@dataclass(frozen=True)
class ReadRecord:
    """A record that was read."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | Digest | None
    headers: tuple[Header, ...]

    def content(self) -> tuple[object, ...]:
        """Comparable with `Record.content`."""
        return (self.partition, self.key, self.value, self.headers)


@dataclass(frozen=True)
class SharedRecord:
    """A record that a member of a share group has acquired."""

    partition: int
    offset: int
    deliveries: int
    value: bytes


@dataclass
class Polled:
    """The result of a group member's poll."""

    records: list[ReadRecord]
    assignment: set[str] = field(default_factory=set)
    """`topic-partition` of each that the member owns."""


class Driver:
    """One client's driver, connected to one broker. Methods raise as `Dialogue.ask` does."""

    def __init__(
        self,
        name: str,
        command: Sequence[str | Path],
        port: int,
        log_directory: Path,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.port = port
        bootstrap = f"127.0.0.1:{port}"
        log = log_directory / f"{name}.log"
        self._dialogue = Dialogue(
            [*command, bootstrap], log=log, directory=ROOT, environment=environment
        )
        about = self._dialogue.ask("about")
        self.version = str(about["version"])
        self.lacks: frozenset[str] = frozenset(about.get("lacks", ()))

    def close(self, patience: float = 10.0) -> None:
        """End the driver's program."""
        self._dialogue.close(patience)

    def kill(self) -> None:
        """Kill the program: its members do not leave their groups."""
        self._dialogue.kill()

    def create_topic(
        self, topic: str, partitions: int = 1, configs: Mapping[str, str] | None = None
    ) -> None:
        self._ask("create_topic", topic=topic, partitions=partitions, configs=dict(configs or {}))

    def delete_topic(self, topic: str) -> None:
        self._ask("delete_topic", topic=topic)

    def add_partitions(self, topic: str, total: int) -> None:
        self._ask("add_partitions", topic=topic, total=total)

    def topics(self) -> set[str]:
        return set(self._ask("topics")["topics"])

    def partitions(self, topic: str) -> int:
        return int(self._ask("partitions", topic=topic)["partitions"])

    def describe_topic(self, topic: str) -> dict[str, str | None]:
        configs: dict[str, str | None] = self._ask("describe_topic", topic=topic)["configs"]
        return configs

    def alter_topic(self, topic: str, name: str, value: str) -> None:
        self._ask("alter_topic", topic=topic, name=name, value=value)

    def delete_records(self, topic: str, partition: int, offset: int) -> None:
        self._ask("delete_records", topic=topic, partition=partition, offset=offset)

    def offset(self, topic: str, partition: int, at: str | int) -> int | None:
        """`at` is `earliest`, `latest` or a timestamp.

        None if no record is at or after the timestamp.
        """
        found = self._ask("offset", topic=topic, partition=partition, at=str(at))["offset"]
        return None if found is None else int(found)

    def produce(
        self,
        topic: str,
        records: Iterable[Record],
        *,
        codec: str = "none",
        acks: int = -1,
        idempotent: bool = False,
    ) -> list[int | None]:
        """The offset of each record; None if the client does not report it."""
        said = [record.as_json() for record in records]
        answer = self._ask(
            "produce", topic=topic, records=said, codec=codec, acks=acks, idempotent=idempotent
        )
        offsets: list[int | None] = answer["offsets"]
        return offsets

    def produce_empty(self, topic: str) -> None:
        self._ask("produce_empty", topic=topic)

    def read(
        self,
        topic: str,
        count: int,
        *,
        partitions: Sequence[int] = (0,),
        start: int = 0,
        timeout_seconds: float = 20.0,
        committed: bool = False,
    ) -> list[ReadRecord]:
        """Up to `count` records from offset `start` of each partition, in no group; only
        committed ones where it matters (some clients read no others)."""
        answer = self._ask(
            "read",
            topic=topic,
            partitions=list(partitions),
            **{"from": start},
            count=count,
            timeout_ms=int(timeout_seconds * 1000),
            committed=committed,
        )
        return [_read(each) for each in answer["records"]]

    def transact(
        self,
        transactional_id: str,
        topic: str,
        records: Iterable[Record],
        end: str,
        *,
        group: str | None = None,
        offset: int = 0,
    ) -> None:
        """Write records in a transaction of a new producer; `end` is `commit`, `abort` or `none`.

        With a group, its offset for partition 0 of the topic is part of the transaction.
        """
        said = [record.as_json() for record in records]
        self._ask(
            "transact",
            id=transactional_id,
            topic=topic,
            records=said,
            end=end,
            group=group,
            offset=offset,
        )

    def join(
        self,
        member: str,
        group: str,
        topics: Sequence[str],
        *,
        strategy: str = "range",
        instance: str | None = None,
        pattern: str | None = None,
    ) -> None:
        self._ask(
            "join",
            member=member,
            group=group,
            topics=list(topics),
            strategy=strategy,
            instance=instance,
            pattern=pattern,
        )

    def poll(self, member: str, count: int = 1000, timeout_seconds: float = 0.2) -> Polled:
        """Up to `count` records within the time."""
        answer = self._ask(
            "poll", member=member, count=count, timeout_ms=int(timeout_seconds * 1000)
        )
        return Polled([_read(each) for each in answer["records"]], set(answer["assignment"]))

    def commit(self, member: str) -> None:
        self._ask("commit", member=member)

    def leave(self, member: str) -> None:
        self._ask("leave", member=member)

    def committed(self, group: str, topic: str) -> dict[int, int]:
        offsets = self._ask("committed", group=group, topic=topic)["offsets"]
        return {int(partition): int(offset) for partition, offset in offsets.items()}

    # -- share groups ---------------------------------------------------------------------------

    def alter_group(self, group: str, configs: Mapping[str, str]) -> None:
        self._share("alter_group", group=group, configs=dict(configs))

    def share_join(
        self, member: str, group: str, topics: Sequence[str], configs: Mapping[str, str]
    ) -> None:
        self._share(
            "share_join", member=member, group=group, topics=list(topics), configs=dict(configs)
        )

    def share_poll(self, member: str, timeout_seconds: float = 1.0) -> list[SharedRecord]:
        answer = self._share("share_poll", member=member, timeout_ms=int(timeout_seconds * 1000))
        return [
            SharedRecord(
                each["partition"],
                each["offset"],
                each["deliveries"],
                base64.b64decode(each["value"]),
            )
            for each in answer["records"]
        ]

    def share_acknowledge(self, member: str, types: Mapping[int, str]) -> list[str]:
        """Acknowledge records and return the names of errors; the keys are offsets."""
        answer = self._share(
            "share_acknowledge", member=member, types={str(each): types[each] for each in types}
        )
        return [str(each) for each in answer["errors"]]

    def share_leave(self, member: str) -> None:
        self._share("share_leave", member=member)

    def _share(self, verb: str, **arguments: Any) -> dict[str, Any]:
        if self.name not in SHARE_CLIENTS:
            raise Unsupported(f"the driver of {self.name} has no share consumer")
        return self._ask(verb, **arguments)

    def login(self, **arguments: Any) -> list[str]:
        """Write and read a record with other credentials; return what the client said about it."""
        return [str(each) for each in self._ask("login", **arguments)["said"]]

    @property
    def pid(self) -> int:
        """The process id of the program."""
        return self._dialogue.pid

    def open_sessions(self, logins: Sequence[Mapping[str, Any]]) -> None:
        """Make a producer and a consumer for each login; each has written or read a record."""
        self._ask("open_sessions", logins=[dict(each) for each in logins])

    def use_sessions(self, for_ms: int) -> list[tuple[int, list[str]]]:
        """Write and read for some time. Return how many records, and the errors, for each login."""
        used = self._ask("use_sessions", for_ms=for_ms)["used"]
        return [(int(each["records"]), [str(one) for one in each["said"]]) for each in used]

    def close_sessions(self) -> None:
        self._ask("close_sessions")

    def groups(self) -> set[str]:
        return set(self._ask("groups")["groups"])

    def delete_group(self, group: str) -> None:
        self._ask("delete_group", group=group)

    def _ask(self, verb: str, **arguments: Any) -> dict[str, Any]:
        return self._dialogue.ask(verb, 75.0, **arguments)


def shown(value: bytes | Fill | None) -> bytes | Digest | None:
    """A value as a read reports it: large ones as their digest."""
    data = b"x" * value.size if isinstance(value, Fill) else value
    if data is not None and len(data) > VALUE_SHOWN_MAX:
        return Digest(len(data), hashlib.sha256(data).hexdigest())
    return data


def _encoded(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _decoded(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def _read(each: dict[str, Any]) -> ReadRecord:
    value = each["value"]
    return ReadRecord(
        topic=each["topic"],
        partition=each["partition"],
        offset=each["offset"],
        timestamp=each["timestamp"],
        key=_decoded(each["key"]),
        value=Digest(**value) if isinstance(value, dict) else _decoded(value),
        headers=tuple((name, _decoded(content)) for name, content in each["headers"]),
    )
