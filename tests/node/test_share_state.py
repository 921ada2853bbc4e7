"""The state of share partitions whose coordinators are on different brokers."""

import asyncio

import pytest

from odradek.broker.coordinator import share_apis
from odradek.core.coordinator.placement import partition_for
from odradek.core.share_coordinator.key import SharePartitionKey

from .cluster import cluster
from .test_roles import run

pytestmark = pytest.mark.cluster

ROLES = dict.fromkeys((1, 2, 3), "broker,controller")
SETTINGS = {
    "share_coordinator_state_topic_num_partitions": "6",
    "share_coordinator_state_topic_replication_factor": "3",
    "share_coordinator_state_topic_min_isr": "2",
    "share_coordinator_snapshot_update_records_per_snapshot": "3",
}
COUNT = 12


class States:
    """Asks through the persister of one broker."""

    def __init__(self, nodes, topic_id):
        self.nodes = nodes
        self.keys = [SharePartitionKey("workers", topic_id, index) for index in range(COUNT)]

    def coordinators(self, via):
        topic = self.nodes.nodes[via].broker.metadata.image.topics.by_name["__share_group_state"]
        count = len(topic.partitions)
        return {key: topic.partitions[partition_for(key.text, count)].leader for key in self.keys}

    async def ask(self, via, api, module, **fields):
        """The result of each partition; none has an error."""
        persister = self.nodes.nodes[via].broker.coordinators.share_persister
        data = {key: module.PartitionData(partition=key.partition, **fields) for key in self.keys}
        response = await getattr(persister, api.operation)(api.ask("workers", data))
        results = api.results("workers", response)
        assert not any(each.error_code for each in results.values()), results
        return [results[key] for key in self.keys]

    async def initialize(self, via):
        module = share_apis.initialize_share_group_state_request
        await self.ask(via, share_apis.INITIALIZE, module, state_epoch=1, start_offset=0)

    async def write(self, via, last_offset):
        module = share_apis.write_share_group_state_request
        batch = module.StateBatch(
            first_offset=0, last_offset=last_offset, delivery_state=2, delivery_count=1
        )
        persister = self.nodes.nodes[via].broker.coordinators.share_persister
        begun = [
            persister.write(
                key,
                module.PartitionData(
                    partition=key.partition,
                    state_epoch=1,
                    leader_epoch=0,
                    start_offset=-1,
                    state_batches=[batch],
                ),
            )
            for key in self.keys
        ]
        results = [await each if isinstance(each, asyncio.Future) else each for each in begun]
        assert not any(each.error_code for each in results), results

    async def ends(self, via):
        """The last offset of the only batch of each share partition."""
        module = share_apis.read_share_group_state_request
        found = await self.ask(via, share_apis.READ, module, leader_epoch=0)
        return {batch.last_offset for each in found for batch in each.state_batches}


@run
async def test_states_survive_the_stop_of_a_coordinator(tmp_path):
    """Every broker reads what another one wrote, also after coordinators have moved."""
    async with cluster(tmp_path, ROLES, **SETTINGS) as nodes:
        await nodes.create(1, "orders", partitions=COUNT, factor=3)
        topic_id = nodes.nodes[1].broker.metadata.image.topics.by_name["orders"].id
        states = States(nodes, topic_id)
        await states.initialize(1)
        assert set(states.coordinators(1).values()) == {1, 2, 3}
        for number in range(5):
            await states.write(number % 3 + 1, number)
        assert await states.ends(2) == {4}
        writing = asyncio.ensure_future(_keep_writing(states))
        await nodes.stop(3)
        assert await writing == 24
        await nodes.until(lambda: set(states.coordinators(1).values()) == {1, 2})
        assert await states.ends(2) == {24}
        await nodes.start(3)
        assert await states.ends(3) == {24}


async def _keep_writing(states):
    for number in range(5, 25):
        await states.write(1, number)
    return number
