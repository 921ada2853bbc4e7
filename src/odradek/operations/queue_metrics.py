"""Reads what the brokers know about records in flight, from their metrics.

Kafka's protocol has no request for the records that consumers have acquired: only the leader of a
partition knows them. Brokers of Odradek serve them to Prometheus. The broker's settings say where.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from urllib.error import URLError
from urllib.request import ProxyHandler, build_opener

from odradek.client.admin.configs import Resource, describe_configs
from odradek.client.cluster import Cluster
from odradek.client.errors import ClientError
from odradek.client.metadata import Node
from odradek.config.listeners import WILDCARD_HOSTS
from odradek.model.config_resource import ResourceType
from odradek.model.topic_partition import TopicPartition

TIMEOUT_SECONDS = 2.0
_HOST = "odradek.metrics.host"
_PORT = "odradek.metrics.port"
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_PREFIX = "odradek_share_partition_"
_SAMPLE = re.compile(rf"{_PREFIX}(\w+)\{{(.*)\}} (\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(r"\\(.)")


@dataclass(slots=True)
class InFlight:
    """The records in flight in one partition."""

    acquired: int = 0
    released: int = 0
    """Number of records that were delivered, and wait for another delivery."""
    deliveries: dict[int, int] = field(default_factory=dict)
    """Number of acquired and released records by their number of deliveries."""
    oldest_lock_ms: int | None = None

    def add(self, name: str, labels: Mapping[str, str], value: float) -> None:
        """Add a sample of a metric whose name is `odradek_share_partition_` and `name`."""
        match name:
            case "acquired_records":
                self.acquired = int(value)
            case "released_records":
                self.released = int(value)
            case "deliveries":
                self.deliveries[int(labels["deliveries"])] = int(value)
            case "oldest_lock_seconds":
                self.oldest_lock_ms = round(value * 1000)
            case _:
                pass  # another metric of share partitions


def read_in_flight(
    cluster: Cluster, group: str, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, InFlight]:
    """Return the records in flight of the partitions whose leaders serve metrics."""
    led: dict[int, list[TopicPartition]] = defaultdict(list)
    metadata = cluster.metadata
    for key in partitions:
        topic = metadata.topics.get(key.topic)
        partition = None if topic is None else topic.partitions.get(key.partition)
        if partition is not None and partition.leader >= 0:
            led[partition.leader].append(key)
    found: dict[TopicPartition, InFlight] = {}
    opener = build_opener(ProxyHandler({}))  # proxies do not reach brokers
    for node_id, url in _urls(cluster, led).items():
        try:
            with opener.open(url, timeout=TIMEOUT_SECONDS) as response:
                text = response.read().decode()
        except (URLError, OSError, UnicodeDecodeError):
            continue  # the caller says that nothing is known of these partitions
        served = parse(text, group)
        found.update((key, served.get(key, InFlight())) for key in led[node_id])
    return found


def _urls(cluster: Cluster, node_ids: Iterable[int]) -> dict[int, str]:
    """Return where brokers serve their metrics, without those that serve none."""
    resources = {Resource(ResourceType.BROKER, str(each)): each for each in node_ids}
    if not resources:
        return {}
    try:
        described = describe_configs(cluster, resources, names=[_HOST, _PORT])
    except ClientError:
        return {}
    urls: dict[int, str] = {}
    for resource, node_id in resources.items():
        entries = described[resource]
        node = cluster.metadata.nodes.get(node_id)
        if isinstance(entries, ClientError) or node is None:
            continue
        values = {each.name: each.value or "" for each in entries}
        host = _host(values.get(_HOST, ""), node)
        if host is not None and int(values.get(_PORT, "-1")) > 0:
            urls[node_id] = f"http://{host}:{values[_PORT]}/metrics"
    return urls


def _host(host: str, node: Node) -> str | None:
    """Return the host to connect to; None if metrics are served on another machine only."""
    advertised = node.address.host
    if host in WILDCARD_HOSTS:
        host = advertised
    elif host in _LOOPBACK and advertised not in _LOOPBACK:
        return None
    return f"[{host}]" if ":" in host else host


def parse(text: str, group: str) -> dict[TopicPartition, InFlight]:
    """Return the records in flight of a group, from metrics in Prometheus's text format."""
    found: dict[TopicPartition, InFlight] = {}
    for line in text.splitlines():
        sample = _SAMPLE.fullmatch(line)
        if sample is None:
            continue
        name, labels, value = sample.groups()
        of = {key: _ESCAPED.sub(_unescaped, text) for key, text in _LABEL.findall(labels)}
        if of.get("group") != group:
            continue
        each = found.setdefault(TopicPartition(of["topic"], int(of["partition"])), InFlight())
        each.add(name, of, float(value))
    return found


def _unescaped(match: re.Match[str]) -> str:
    return "\n" if match[1] == "n" else match[1]
