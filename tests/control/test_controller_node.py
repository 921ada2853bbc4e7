"""The controller and its log: decisions are durable, share flushes, and are published in order."""

import asyncio
import errno
import os
import threading

import pytest

from odradek.core.metadata.errors import ReplayError
from odradek.core.metadata.record import encode_record
from odradek.env.executor import Pool, call
from odradek.env.file_system import OsFileSystem
from odradek.log.errors import LogDirectoryOffline
from odradek.model.errors import ApiError, ErrorCode
from odradek.wire.generated.allocate_producer_ids_request import AllocateProducerIdsRequest
from odradek.wire.generated.create_topics_request import CreateTopicsRequest
from odradek.wire.generated.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from odradek.wire.generated.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.wire.generated.remove_topic_record import RemoveTopicRecord

from .node import running, start
from .test_topic_decisions import topic


def create(*topics, timeout_ms=60_000):
    return CreateTopicsRequest(topics=list(topics), timeout_ms=timeout_ms)


def run(test):
    """Run an async test on its own event loop."""

    def runner(tmp_path):
        asyncio.run(test(tmp_path))

    runner.__name__ = test.__name__
    return runner


def same(first, second):
    """Whether the topics and the settings of two images are equal."""
    return first.topics == second.topics and first.configs == second.configs


@run
async def test_a_created_topic_is_published_before_the_answer(tmp_path):
    async with running(tmp_path) as node:
        response = await node.ask(create(topic("a", 3)))
        assert response.topics[0].error_code == 0
        assert sorted(node.cache.image.topics.by_name["a"].partitions) == [0, 1, 2]
        delta, image = node.recorder.published[-1]
        assert image is node.cache.image
        assert list(delta.topics.changed) == [response.topics[0].topic_id]


@run
async def test_a_restart_finds_everything_again(tmp_path):
    async with running(tmp_path) as node:
        await node.ask(create(topic("a", 3, settings={"retention.ms": "5"}), topic("b")))
        await node.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="b")]))
        before = node.cache.image
        epoch = node.lifecycle.epoch
        await node.lifecycle.shut_down(before.offset)
    async with running(tmp_path, join=False) as node:
        image = node.cache.image
        assert same(image, before)
        assert image.cluster.brokers[1].fenced
        await node.join(epoch)
        assert node.cache.image.topics == before.topics
        assert node.lifecycle.epoch > epoch


@run
async def test_after_a_crash_what_was_answered_is_there(tmp_path):
    node = await start(tmp_path)
    await node.ask(create(topic("a", 2)))
    before = node.cache.image
    # The process was killed: no file is closed, and another process opens the same files.
    async with running(tmp_path) as other:
        assert other.controller.image.epoch == before.epoch + 1
        partition = other.cache.image.topics.partition("a", 1)
        assert partition.leader == 1
        assert partition.leader_epoch == 1, "an unclean end begins a new leader epoch"
    await node.close()


@run
async def test_many_decisions_share_a_sync(tmp_path):
    async with running(tmp_path) as node:
        before = node.raft.flushes
        answers = await asyncio.gather(
            *(node.ask(create(topic(f"t{index}"))) for index in range(100))
        )
        assert all(each.topics[0].error_code == 0 for each in answers)
        assert node.raft.flushes - before <= 2
        assert len(node.cache.image.topics.by_name) == 100


@run
async def test_decisions_see_earlier_ones_and_are_not_published_early(tmp_path):
    async with running(tmp_path) as node:
        first = asyncio.ensure_future(node.ask(create(topic("a"))))
        second = asyncio.ensure_future(node.ask(create(topic("a"))))
        await asyncio.sleep(0)
        assert "a" in node.controller.image.topics.by_name
        assert "a" not in node.cache.image.topics.by_name
        assert (await second).topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS
        assert first.done(), "an answer that rests on an earlier decision comes after it"
        assert (await first).topics[0].error_code == 0


@run
async def test_a_resigned_controller_takes_no_decisions(tmp_path):
    node = await start(tmp_path)
    await node.close()
    with pytest.raises(ApiError) as raised:
        await node.ask(create(topic("a")))
    assert raised.value.code is ErrorCode.NOT_CONTROLLER


@run
async def test_producer_ids_are_never_given_out_twice(tmp_path):
    seen = set()
    for _ in range(3):
        node = await start(tmp_path)
        request = AllocateProducerIdsRequest(broker_id=1, broker_epoch=node.lifecycle.epoch)
        block = await node.ask(request)
        ids = range(block.producer_id_start, block.producer_id_start + block.producer_id_len)
        assert len(ids) == 1000
        assert not seen.intersection(ids)
        seen.update(ids)
        await node.close()


@run
async def test_settings_reach_the_decisions_that_follow(tmp_path):
    async with running(tmp_path) as node:
        resource = AlterConfigsResource(
            resource_type=4,
            resource_name="",
            configs=[AlterableConfig(name="log.retention.ms", config_operation=0, value="77")],
        )
        response = await node.ask(IncrementalAlterConfigsRequest(resources=[resource]))
        assert response.responses[0].error_code == 0
        created = await node.ask(create(topic("a")))
        described = {each.name: each for each in created.topics[0].configs}
        assert described["retention.ms"].value == "77"
        assert described["retention.ms"].config_source == 3


@run
async def test_snapshots_replace_the_log(tmp_path):
    settings = {
        "metadata_log_max_record_bytes_between_snapshots": "2000",
        "metadata_max_retention_bytes": "1",
    }
    async with running(tmp_path, **settings) as node:
        for index in range(40):
            await node.ask(create(topic(f"t{index}", 2)))
        for index in range(20):
            await node.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name=f"t{index}")]))
        before = node.cache.image
    found = sorted(each.name for each in tmp_path.glob("__cluster_metadata-0/*.checkpoint"))
    assert len(found) == 1, "older snapshots are gone"
    assert found[0] > f"{0:020d}"
    async with running(tmp_path, join=False, **settings) as node:
        assert same(node.cache.image, before)
        assert node.cache.image.cluster.brokers == before.cluster.brokers


class FailingFileSystem(OsFileSystem):
    """Each call of `failing` fails."""

    failing = ""

    def _check(self, call):
        if call == self.failing:
            raise OSError(errno.EIO, "the disk is broken")

    def fsync(self, descriptor):
        self._check("sync")
        os.fsync(descriptor)

    def fdatasync(self, descriptor):
        self._check("sync")
        os.fdatasync(descriptor)

    def pwrite(self, descriptor, data, position):
        self._check("write")
        return os.pwrite(descriptor, data, position)

    def pwritev(self, descriptor, parts, position):
        self._check("write")
        return os.pwritev(descriptor, parts, position)


@pytest.mark.parametrize("failing", ["write", "sync"])
def test_a_disk_that_fails(tmp_path, failing):
    async def check():
        disk = FailingFileSystem()
        node = await start(tmp_path, file_system=disk)
        await node.ask(create(topic("before")))
        image = node.cache.image
        disk.failing = failing
        asked = [node.ask(create(topic(name))) for name in ("a", "b")]
        for result in await asyncio.gather(*asked, return_exceptions=True):
            assert isinstance(result, ApiError)
            assert result.code is ErrorCode.NOT_CONTROLLER
        assert len(node.failures) == 1, "told once"
        assert node.cache.image is image, "nothing that may be lost is published"
        assert not node.controller.is_active
        disk.failing = ""
        with pytest.raises(ApiError) as raised:
            await node.ask(create(topic("after")))
        assert raised.value.code is ErrorCode.NOT_CONTROLLER
        await node.close()
        os.close(node.directory.lock)

    asyncio.run(check())
    asyncio.run(_finds(tmp_path, "before"))


async def _finds(path, name):
    async with running(path) as node:
        assert name in node.cache.image.topics.by_name


@run
async def test_a_passed_deadline_is_reported(tmp_path):
    gate = asyncio.Event()
    async with running(tmp_path) as node:
        loop = asyncio.get_running_loop()
        blocker = call(
            node.executor,
            lambda: asyncio.run_coroutine_threadsafe(gate.wait(), loop).result(),
            Pool.METADATA,
        )
        with pytest.raises(ApiError) as raised:
            await node.ask(create(topic("a"), timeout_ms=20))
        assert raised.value.code is ErrorCode.REQUEST_TIMED_OUT
        assert "a" not in node.cache.image.topics.by_name
        gate.set()
        await blocker
        await node.ask(create(topic("b")))
        assert "a" in node.cache.image.topics.by_name


class FailingQuorumState(OsFileSystem):
    """`quorum-state` cannot be replaced."""

    def rename(self, source, target):
        if target.endswith("quorum-state"):
            raise OSError(errno.EIO, "the disk is broken")
        super().rename(source, target)


@run
async def test_a_vote_that_cannot_be_written_is_a_failed_start(tmp_path):
    with pytest.raises(LogDirectoryOffline):
        await start(tmp_path, file_system=FailingQuorumState())
    async with running(tmp_path) as node:  # nothing was led, so nothing was written
        assert node.controller.image.epoch == 1


@run
async def test_nothing_is_appended_before_the_vote_is_durable(tmp_path):
    class Watched(OsFileSystem):
        def __init__(self):
            self.is_voted = False
            self.early = []

        def rename(self, source, target):
            super().rename(source, target)
            self.is_voted = self.is_voted or target.endswith("quorum-state")

        def pwrite(self, descriptor, data, position):
            path = os.readlink(f"/proc/self/fd/{descriptor}")
            if not self.is_voted and "__cluster_metadata-0/" in path and path.endswith(".log"):
                self.early.append(path)
            return super().pwrite(descriptor, data, position)

    disk = Watched()
    async with running(tmp_path, file_system=disk):
        assert disk.is_voted
        assert disk.early == []


@run
async def test_the_loop_runs_while_the_vote_is_synced(tmp_path):
    turns = []

    class Slow(OsFileSystem):
        """The first flush ends after an iteration of the event loop."""

        def __init__(self, loop):
            self.loop = loop

        def fsync(self, descriptor):
            done = threading.Event()
            if not turns and threading.current_thread() is not threading.main_thread():
                self.loop.call_soon_threadsafe(lambda: (turns.append(1), done.set()))
                assert done.wait(10), "the loop waits for the sync"
            super().fsync(descriptor)

    async with running(tmp_path, file_system=Slow(asyncio.get_running_loop())):
        assert turns


@run
async def test_a_standby_state_is_shared_again_when_nothing_is_uncommitted(tmp_path):
    async with running(tmp_path) as node:
        await node.ask(create(topic("a")))
        assert node.controller.image is node.loader.image
        asked = asyncio.ensure_future(node.ask(create(topic("b"))))
        await asyncio.sleep(0)
        assert node.controller.image is not node.loader.image
        await asked
        assert node.controller.image is node.loader.image
        assert sorted(node.loader.image.topics.by_name) == ["a", "b"]


@run
async def test_metadata_that_cannot_be_applied_ends_the_controller(tmp_path):
    node = await start(tmp_path)
    broken = RemoveTopicRecord(topic_id=bytes(range(16)))
    values = [encode_record(broken, 30)]
    node.raft.append(node.raft.leader.epoch, [broken], values)
    with pytest.raises(ApiError) as raised:
        await node.ask(create(topic("a")))
    assert raised.value.code is ErrorCode.NOT_CONTROLLER
    (failure,) = node.failures
    assert isinstance(failure, ReplayError)
    assert not node.controller.is_active
    await node.close()
    os.close(node.directory.lock)
    with pytest.raises(ReplayError):
        await start(tmp_path)
