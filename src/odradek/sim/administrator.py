"""Changes a simulated cluster while nodes fail and all clients run.

It sets a setting of one group after the other, and changes one topic: it adds partitions, and changes a setting. A producer writes to this topic, and the members of a group read it. At
the end, all that was acknowledged must be there (`differences`), and nothing that was not asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from odradek.core.metadata.image import MetadataImage
from odradek.model.config_resource import ResourceType
from odradek.model.errors import ErrorCode as E
from odradek.sim.driver import SimClient
from odradek.sim.facts import Facts
from odradek.sim.simulation import Simulation
from odradek.sim.workload import NOT_NOW, Actor
from odradek.wire.generated.create_partitions_request import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from odradek.wire.generated.create_partitions_response import CreatePartitionsResponse
from odradek.wire.generated.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.wire.generated.incremental_alter_configs_response import (
    IncrementalAlterConfigsResponse,
)

NO_CONTROLLER = NOT_NOW | {
    E.NOT_CONTROLLER,
    E.BROKER_NOT_AVAILABLE,
    E.INVALID_REPLICATION_FACTOR,  # too few brokers are not fenced
}
"""Errors after which a change of the metadata may take effect later, or never."""
SETTING, VALUE = "consumer.session.timeout.ms", "45000"
TOPIC, TOPIC_SETTING = "shelf", "max.message.bytes"
PARTITIONS_MAX = 4
_BYTES = 100_000


T = TypeVar("T")


class Possible(Generic[T]):
    """What a value may be: the last one that was acknowledged, and all whose request had no response.

    The network may deliver such a request later than others.
    """

    def __init__(self) -> None:
        self.acknowledged: T | None = None
        self.unknown: list[T] = []

    def ask(self, value: T) -> None:
        """Note that a value is asked for."""
        self.unknown.append(value)

    def acknowledge(self, value: T) -> None:
        """Note that the value was acknowledged."""
        self.unknown.remove(value)
        self.acknowledged = value

    def has(self, value: T | None) -> bool:
        """Whether this may be the value; None if there was none at first."""
        return value == self.acknowledged or value in self.unknown


@dataclass(slots=True)
class Changes:
    """What has been asked for, and what was acknowledged."""

    partitions: int = 1
    """The highest number of partitions that was acknowledged."""
    asked_partitions: int = 1
    value: Possible[str] = field(default_factory=Possible)
    """Of `TOPIC_SETTING`."""

    def ask_partitions(self, count: int) -> None:
        """Note that partitions are asked for."""
        self.asked_partitions = max(self.asked_partitions, count)

    def acknowledge_partitions(self, count: int) -> None:
        """Note that there are so many partitions."""
        self.partitions = max(self.partitions, count)


class Administrator(Actor):
    """Makes one change after the other."""

    def __init__(self, simulation: Simulation, client: SimClient, facts: Facts) -> None:
        super().__init__(simulation, client, facts)
        self.changes = Changes()
        self._number = 0

    async def run(self) -> None:
        """See `Actor`."""
        acts = (self._set_group, self._set_group, self._grow, self._set)
        while not self.is_stopping:
            self._number += 1
            await self.random.choice(acts)()
            await self.pause(0.4)

    def _is_done(self, what: str, code: int) -> bool:
        """Return whether a change was acknowledged."""
        if code and code not in NO_CONTROLLER:
            self.unexpected(what, code)
        if not code:
            self.facts.count(what)
        return not code

    # -- settings -------------------------------------------------------------------------------

    async def _alter(self, kind: int, name: str, setting: str, value: str) -> bool:
        change = AlterableConfig(name=setting, config_operation=0, value=value)
        resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=[change])
        request = IncrementalAlterConfigsRequest(resources=[resource])
        response = await self.ask(request, IncrementalAlterConfigsResponse)
        return response is not None and self._is_done(
            "settings changed", response.responses[0].error_code
        )

    async def _set_group(self) -> None:
        """Set a setting of a group. The group need not exist."""
        name = f"group {self._number}"
        if await self._alter(ResourceType.GROUP, name, SETTING, VALUE):
            self.facts.settings.append(name)

    async def _set(self) -> None:
        value = str(_BYTES + self._number)
        self.changes.value.ask(value)
        if await self._alter(ResourceType.TOPIC, TOPIC, TOPIC_SETTING, value):
            self.changes.value.acknowledge(value)

    # -- the topic ------------------------------------------------------------------------------

    async def _grow(self) -> None:
        count = self.changes.asked_partitions + 1
        if count > PARTITIONS_MAX:
            return
        self.changes.ask_partitions(count)
        request = CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name=TOPIC, count=count, assignments=None)],
            timeout_ms=3_000,
        )
        response = await self.ask(request, CreatePartitionsResponse)
        if response is None:
            return
        code = response.results[0].error_code
        if code == E.INVALID_PARTITIONS:
            return  # an earlier request without a response has had an effect
        if self._is_done("partitions added", code):
            self.changes.acknowledge_partitions(count)

    # -- the end --------------------------------------------------------------------------------

    def differences(self, image: MetadataImage) -> Iterator[str]:
        """Yield what is not in the metadata as it was acknowledged."""
        changes = self.changes
        topic = image.topics.by_name[TOPIC]
        if not changes.partitions <= len(topic.partitions) <= changes.asked_partitions:
            yield (
                f"{TOPIC} has {len(topic.partitions)} partitions; {changes.partitions} were"
                f" acknowledged, {changes.asked_partitions} asked for"
            )
        value = image.configs.of(ResourceType.TOPIC, TOPIC).get(TOPIC_SETTING)
        if not changes.value.has(value):
            yield f"{TOPIC_SETTING} of {TOPIC} is {value}, not {changes.value.acknowledged}"
