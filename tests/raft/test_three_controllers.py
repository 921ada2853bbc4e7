"""Three controllers over sockets: elections, replication, and the failure of a controller."""

import asyncio

import pytest
from tests.control.test_topic_decisions import topic

from odradek.core.raft.messages import AddVoterRequest, RemoveVoterRequest
from odradek.model.errors import ErrorCode
from odradek.wire.generated.create_topics_request import CreateTopicsRequest

from .controllers import three_controllers

pytestmark = pytest.mark.cluster


def create(*names):
    return CreateTopicsRequest(topics=[topic(each) for each in names], timeout_ms=60_000)


def run(test):
    def runner(tmp_path):
        asyncio.run(test(tmp_path))

    runner.__name__ = test.__name__
    return runner


def assert_same_bytes(quorum):
    logs = [
        b"".join(bytes(batch.data) for batch in each.raft.log.batches(0)) for each in quorum.running
    ]
    assert logs.count(logs[0]) == len(logs) == 3


@run
async def test_decisions_reach_all_controllers(tmp_path):
    async with three_controllers(tmp_path) as quorum:
        active = await quorum.active()
        await active.register_broker()
        response = await active.ask(create("a", "b"))
        assert [each.error_code for each in response.topics] == [0, 0]
        assert await quorum.until_equal() == ["a", "b"]
        assert sum(each.controller.is_active for each in quorum.running) == 1
        assert_same_bytes(quorum)


@run
async def test_a_stopped_leader_hands_over_and_catches_up_later(tmp_path):
    async with three_controllers(tmp_path) as quorum:
        first = await quorum.active()
        await first.register_broker()
        await first.ask(create("a"))
        epoch = first.raft.machine.epoch
        await first.stop()
        second = await quorum.active()
        assert second is not first
        assert second.raft.machine.epoch > epoch
        await second.register_broker()
        await second.ask(create("b"))
        await first.start()
        assert await quorum.until_equal() == ["a", "b"]


@run
async def test_a_killed_leader_is_replaced_and_nothing_is_lost(tmp_path):
    async with three_controllers(tmp_path) as quorum:
        names = []
        for number in range(3):
            active = await quorum.active()
            await active.register_broker()
            name = f"t{number}"
            await active.ask(create(name))
            names.append(name)
            await active.kill()
            await quorum.active()
            await active.start()
        assert await quorum.until_equal() == names


@run
async def test_a_controller_without_a_disk_fetches_the_snapshot(tmp_path):
    settings = {
        "metadata_log_max_record_bytes_between_snapshots": "500",
        "metadata_max_retention_bytes": "1",
    }
    async with three_controllers(tmp_path, **settings) as quorum:
        active = await quorum.active()
        await active.register_broker()
        number = 0
        while active.raft.log.start_offset == 0:  # no segment is deleted yet
            response = await active.ask(create(f"t{number:03}"))
            assert response.topics[0].error_code == 0
            number += 1
        names = await quorum.until_equal()
        assert len(names) == number
        follower = next(each for each in quorum.running if each is not active)
        await follower.stop()
        follower.wipe()
        await follower.start()
        assert await quorum.until_equal() == names
        assert follower.raft.log.start_offset > 0, "it began with a snapshot"
        await active.ask(create("later"))
        assert "later" in await quorum.until_equal()


@run
async def test_an_observer_finds_the_leader_and_follows_the_log(tmp_path):
    async with three_controllers(tmp_path) as quorum:
        active = await quorum.active()
        await active.register_broker()
        await active.ask(create("a"))
        observer = quorum.observer(next(each for each in quorum.running if each is not active))
        await observer.start()
        assert await quorum.until_equal() == ["a"]
        await active.stop()
        active = await quorum.active()
        assert active is not observer
        await active.register_broker()
        await active.ask(create("b"))
        assert await quorum.until_equal() == ["a", "b"]
        known = {each.key.id: each.is_voter for each in active.raft.replicas()}
        assert known == {1: True, 2: True, 3: True, 4: False}


@run
async def test_voters_are_added_and_removed(tmp_path):
    async with three_controllers(tmp_path, dynamic=True) as quorum:
        active = await quorum.active()
        assert active.raft.settings.kraft_version == 1
        await active.register_broker()
        await active.ask(create("a"))
        added = quorum.observer(active)
        await added.start()
        await quorum.until_equal()
        voter = added.formatted()
        response = await active.raft.serve(AddVoterRequest(voter))
        assert response.error is ErrorCode.NONE
        assert (await active.raft.serve(AddVoterRequest(voter))).error is ErrorCode.DUPLICATE_VOTER
        assert await quorum.until_equal() == ["a"]
        for each in quorum.running:
            assert sorted(each.raft.settings.voters.voters) == [1, 2, 3, 4]
        removed = active.raft.machine.local
        response = await active.raft.serve(RemoveVoterRequest(removed))
        assert response.error is ErrorCode.NONE
        await quorum.until(lambda: not active.controller.is_active)
        await active.stop()
        active = await quorum.active()
        assert active.raft.machine.local.id != removed.id
        await added.stop()
        await added.start()
        await (await quorum.active()).register_broker()
        await (await quorum.active()).ask(create("b"))
        assert await quorum.until_equal() == ["a", "b"]
        for each in quorum.running:
            assert sorted(each.raft.settings.voters.voters) == sorted({1, 2, 3, 4} - {removed.id})


@run
async def test_what_only_the_old_leader_has_is_truncated(tmp_path):
    async with three_controllers(tmp_path) as quorum:
        old = await quorum.active()
        await old.register_broker()
        await old.ask(create("a"))
        await quorum.until_equal()
        others = [each for each in quorum.running if each is not old]
        for each in others:
            await each.kill()
        before = old.raft.log.end_offset
        asked = asyncio.ensure_future(old.ask(create("lost")))
        await quorum.until(lambda: old.raft.log.flushed_offset > before)
        assert "lost" not in old.loader.image.topics.by_name
        await old.kill()
        asked.cancel()
        for each in others:
            await each.start()
        active = await quorum.active()
        await active.register_broker()
        await active.ask(create("b"))
        await old.start()
        assert old.raft.log.end_offset > before
        assert await quorum.until_equal() == ["a", "b"]
        assert_same_bytes(quorum)
