"""Facts about share groups: where they start, how far behind they are, and what is in flight (KIP-932)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from odradek.client.admin.share_groups import ShareGroup, StartOffset, describe_start_offsets
from odradek.client.cluster import Cluster
from odradek.client.errors import BrokerError, ClientError
from odradek.client.offsets import LATEST
from odradek.model.errors import ErrorCode
from odradek.model.topic_partition import TopicPartition
from odradek.operations.group_settings import read_setting
from odradek.operations.positions import known_offsets
from odradek.operations.queue_metrics import InFlight, read_in_flight

PRIORITY = "odradek.share.priority"


@dataclass(frozen=True, slots=True)
class ShareGroupFacts:
    """A share group, and what the brokers know about its partitions."""

    found: ShareGroup
    priority: str | ClientError = ""
    """The priorities of topics, such as `urgent:10,bulk:-10`, or why they are not known."""
    partitions: tuple[TopicPartition, ...] = ()
    """The partitions with a start offset or a member, sorted."""
    starts: Mapping[TopicPartition, StartOffset] = field(default_factory=dict)
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    in_flight: Mapping[TopicPartition, InFlight] = field(default_factory=dict)
    """The records in flight of the partitions whose leaders serve metrics."""

    def members(self) -> Counter[TopicPartition]:
        """Return how many members have each partition."""
        return Counter(key for member in self.found.group.members for key in member.partitions)

    def start(self, key: TopicPartition) -> int | None:
        """Return the start offset of a partition; None if it has none."""
        start = self.starts.get(key)
        return None if start is None or start.offset < 0 else start.offset

    def lag(self, key: TopicPartition) -> int | None:
        """Return the number of records that are not done; None if it is not known."""
        start = self.starts.get(key)
        return None if start is None or start.lag < 0 else start.lag

    def waiting(self, key: TopicPartition) -> int | None:
        """Return the number of records that are not done and not acquired; None if not known."""
        lag, found = self.lag(key), self.in_flight.get(key)
        return None if lag is None or found is None else max(0, lag - found.acquired)

    @property
    def lacks_metrics(self) -> bool:
        """Whether a leader did not say which records are acquired."""
        return any(key not in self.in_flight for key in self.partitions)

    def as_json(self) -> dict[str, object]:
        """The facts as JSON."""
        group, members = self.found.group, self.members()
        known = None if isinstance(self.priority, ClientError) else priorities(self.priority)
        return {
            "group": group.id,
            "state": group.state,
            "epoch": group.epoch,
            "assignor": group.assignor or None,
            "topics": list(self.found.topics),
            "priority": known,
            "members": [
                {
                    "id": each.id,
                    "client_id": each.client_id,
                    "host": each.host.removeprefix("/"),
                    "partitions": [key._asdict() for key in each.partitions],
                }
                for each in group.members
            ],
            "partitions": [
                {
                    **key._asdict(),
                    "start": self.start(key),
                    "end": self.ends.get(key),
                    "lag": self.lag(key),
                    "members": members[key],
                    **_in_flight_json(self.in_flight.get(key), self.waiting(key)),
                }
                for key in self.partitions
            ],
        }


def gather(cluster: Cluster, found: ShareGroup) -> ShareGroupFacts:
    """Ask the cluster for the facts about a share group.

    Raises:
        ClientError: the coordinator does not respond, or refuses.
    """
    group = found.group
    priority = read_setting(cluster, [group.id], PRIORITY)[group.id]
    described = describe_start_offsets(cluster, group.id)
    assigned = {key for member in group.members for key in member.partitions}
    partitions = tuple(sorted({*described, *assigned}))
    cluster.refresh({key.topic for key in partitions})
    return ShareGroupFacts(
        found,
        priority,
        partitions,
        {key: each for key, each in described.items() if not isinstance(each, ClientError)},
        known_offsets(cluster, partitions, LATEST),
        read_in_flight(cluster, group.id, partitions),
    )


def start_offsets(cluster: Cluster, group_id: str) -> dict[TopicPartition, int | None]:
    """Return the start offset of each partition; None for one without. A new group has none.

    Raises:
        ClientError: the coordinator does not respond, or refuses.
    """
    try:
        found = describe_start_offsets(cluster, group_id)
    except BrokerError as error:
        if error.code is ErrorCode.GROUP_ID_NOT_FOUND:
            return {}
        raise
    return {
        key: None if isinstance(each, ClientError) or each.offset < 0 else each.offset
        for key, each in found.items()
    }


def priorities(text: str) -> dict[str, int]:
    """Return the priorities by topic, from the text of the setting."""
    pairs = (each.partition(":") for each in text.split(",") if each)
    return {topic: int(number) for topic, _, number in pairs}


def _in_flight_json(found: InFlight | None, waiting: int | None) -> dict[str, object]:
    return {
        "acquired": None if found is None else found.acquired,
        "waiting": waiting,
        "oldest_lock_ms": None if found is None else found.oldest_lock_ms,
        "deliveries": None if found is None else {str(k): v for k, v in found.deliveries.items()},
    }
