"""Controllers with a simulated quorum: the test chooses the leader and commits records.

`Quorum` replaces the raft clients of several nodes. The controllers and loaders are real. Time is
virtual. A test decides when records are committed and which node becomes the leader.
"""

from odradek.broker.controller.quorum_controller import QuorumController
from odradek.broker.metadata.loader import MetadataLoader
from odradek.broker.metadata.publisher import Publishers
from odradek.broker.raft.listener import CommittedBatch, LeaderAndEpoch
from odradek.broker.raft.metadata_log import BatchTooLarge
from odradek.config.load import load
from odradek.core.metadata.record import decode_record
from odradek.core.raft.election import NO_LEADER
from odradek.sim.loop import new_loop
from odradek.sim.simulation import SimClock, Simulation
from odradek.wire.generated.feature_level_record import FeatureLevelRecord

from .harness import FEATURES

CLUSTER_ID = "cluster"


def run(test):
    """Run an async test on virtual time. The argument of the test is a quorum."""

    def runner():
        simulation = Simulation(1)
        loop = new_loop(simulation, "test")

        async def whole():
            await test(Quorum(simulation, loop))

        task = []
        loop.call_soon(lambda: task.append(loop.create_task(whole())))
        simulation.run_until(lambda: bool(task) and task[0].done())
        task[0].result()
        loop.close()
        assert simulation.failures == []

    runner.__name__ = test.__name__
    return runner


class Settings:
    kraft_version = 1

    def __init__(self, voters):
        self.voters = voters


class Log:
    """The batches of one node."""

    def __init__(self):
        self.batches = []

    @property
    def end_offset(self):
        return self.batches[-1].next_offset if self.batches else 0


class Member:
    """The raft client of one node, with its listeners."""

    def __init__(self, node_id, simulation, loop, voters):
        self.id = node_id
        self.log = Log()
        self.settings = Settings(voters)
        self.failure = None
        self.leader = LeaderAndEpoch(NO_LEADER, 0)
        self.high_watermark = 0
        self.delivered = 0
        self.disk_error = None
        self.batch_bytes_max = 8 << 20
        self.appended = 0
        self.on_append = lambda: None
        self.loader = MetadataLoader(Publishers(loop), lambda: self.high_watermark)
        self.controller = QuorumController(
            config=load({}, {"node.id": str(node_id)}).config,
            cluster_id=CLUSTER_ID,
            raft=self,
            loader=self.loader,
            bootstrap=[FeatureLevelRecord(name="metadata.version", feature_level=30)],
            clock=SimClock(simulation),
            random_bytes=simulation.random(f"node {node_id}").randbytes,
            supported_features=FEATURES,
        )

    @property
    def is_leader(self):
        return self.leader.leader_id == self.id

    def append(self, epoch, records, values):
        assert self.is_leader
        assert epoch == self.leader.epoch
        if self.disk_error is not None:
            raise self.disk_error
        size = sum(len(value) for value in values)
        if size > self.batch_bytes_max:
            raise BatchTooLarge(size)
        self.appended += 1
        self.add(epoch, [decode_record(value) for value in values])
        base_offset = self.log.batches[-1].base_offset
        self.on_append()
        return base_offset

    def add(self, epoch, records):
        base_offset = self.log.end_offset
        end_offset = base_offset + max(1, len(records))
        self.log.batches.append(CommittedBatch(base_offset, end_offset, epoch, 0, 0, records))

    def deliver(self):
        found = [
            each
            for each in self.log.batches
            if self.delivered <= each.base_offset and each.next_offset <= self.high_watermark
        ]
        if found:
            self.delivered = found[-1].next_offset
            self.loader.handle_commit(found)
            self.controller.handle_commit(found)

    def tell(self, leader):
        if leader != self.leader:
            self.leader = leader
            self.controller.handle_leader_change(leader)


class Quorum:
    """Three members with the ids 1, 2 and 3."""

    def __init__(self, simulation, loop):
        self.loop = loop
        self.epoch = 0
        voters = dict.fromkeys((1, 2, 3))
        self.members = {each: Member(each, simulation, loop, voters) for each in voters}
        self.cut = set()
        """The members that receive nothing."""
        self.leader_id = NO_LEADER

    def __getitem__(self, node_id):
        return self.members[node_id]

    def commit_at_once(self):
        """Commit all records in the iteration of the event loop after they were appended."""
        for each in self.members.values():
            each.on_append = lambda: self.loop.call_soon(self.commit)

    def reachable(self):
        return [each for each in self.members.values() if each.id not in self.cut]

    def elect(self, node_id):
        """Make a member the leader of the next epoch, and commit its control record."""
        self.epoch += 1
        self.leader_id = node_id
        for each in self.reachable():
            each.tell(LeaderAndEpoch(NO_LEADER, self.epoch))
        self[node_id].add(self.epoch, [])
        self.commit()
        for each in self.reachable():
            each.tell(LeaderAndEpoch(node_id, self.epoch))
        return self[node_id].controller

    def replicate(self, *node_ids):
        """Copy the leader's log to members. Their other records are truncated."""
        for node_id in node_ids:
            self[node_id].log.batches = list(self[self.leader_id].log.batches)

    def commit(self):
        """Replicate the leader's log to all reachable members, commit it and deliver it."""
        self.replicate(*(each.id for each in self.reachable() if each.id != self.leader_id))
        end_offset = self[self.leader_id].log.end_offset
        for each in self.reachable():
            each.high_watermark = end_offset
            each.deliver()
