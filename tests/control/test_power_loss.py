"""The power is lost at every write of a controller.

Afterwards every acknowledged change is present, and an unacknowledged change may be present. No
other change is present.
"""

import asyncio
import random
import threading

from odradek.sim.lossy_file_system import LossyFileSystem
from odradek.wire.generated.create_topics_request import CreateTopicsRequest
from odradek.wire.generated.delete_topics_request import DeleteTopicsRequest, DeleteTopicState

from .node import start
from .test_topic_decisions import topic

PATH = "/data/node"
DRAWS = 2
SNAPSHOT_BYTES = "600"
"""Between snapshots, so that several are written."""


class PhotographedDisk(LossyFileSystem):
    """Before each change, keeps a copy of the disk after a power loss, and the acknowledged topics.

    The log's thread and the event loop's thread change the disk one after the other.
    """

    def __init__(self, root=None):
        super().__init__(root)
        self._turn = threading.RLock()
        self.promised = {}
        self.asked = set()
        self.pictures = []
        self.is_photographed = False
        self.draw = random.Random(1)

    def _step(self, operation, path):
        with self._turn:
            if self.is_photographed:
                self.photograph()
            super()._step(operation, path)

    def photograph(self):
        for _ in range(DRAWS):
            remains = self.crash(self.draw).root
            self.pictures.append((remains, dict(self.promised), set(self.asked)))


def _taking_turns(call):
    def taking_turns(self, *arguments):
        with self._turn:
            return call(self, *arguments)

    return taking_turns


for _name in ("pwrite", "fsync", "fdatasync", "truncate", "rename", "remove", "sync_directory"):
    setattr(PhotographedDisk, _name, _taking_turns(getattr(LossyFileSystem, _name)))


async def create(node, disk, *names):
    disk.asked.update(names)
    request = CreateTopicsRequest(topics=[topic(name, 2) for name in names], timeout_ms=60_000)
    for each in (await node.ask(request)).topics:
        assert each.error_code == 0
        disk.promised[each.name] = each.topic_id


async def delete(node, disk, name):
    """Delete a topic. Until the response arrives, the topic may exist or not."""
    del disk.promised[name]
    await node.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=60_000))
    disk.asked.discard(name)


async def work(disk):
    settings = {"metadata_log_max_record_bytes_between_snapshots": SNAPSHOT_BYTES}
    node = await start(PATH, file_system=disk, **settings)
    disk.is_photographed = True
    for turn in range(6):
        names = [f"t{turn}-{number}" for number in range(3)]
        await asyncio.gather(*(create(node, disk, name) for name in names))
        await create(node, disk, f"alone-{turn}")
        await delete(node, disk, names[0])
    disk.photograph()
    await node.close()
    disk.photograph()


async def topics_after(root):
    node = await start(PATH, file_system=LossyFileSystem(root))
    topics = dict(node.cache.image.topics.by_name)
    await node.close()
    return topics


def snapshots(root):
    names = LossyFileSystem(root).scan(f"{PATH}/__cluster_metadata-0")
    return [each.name for each in names if each.name.endswith(".checkpoint")]


def test_what_was_answered_survives_a_power_cut_at_any_time():
    disk = PhotographedDisk()
    asyncio.run(work(disk))
    assert len(disk.pictures) > 100
    assert len({name for root, _, _ in disk.pictures for name in snapshots(root)}) > 2
    for root, promised, asked in disk.pictures:
        topics = asyncio.run(topics_after(root))
        assert {name: topics[name].id for name in promised} == promised
        assert set(topics) <= asked
        assert all(len(each.partitions) == 2 for each in topics.values())


def test_a_power_cut_while_the_directory_is_formatted_leaves_one_that_starts():
    disk = PhotographedDisk()
    disk.is_photographed = True

    async def first_start():
        node = await start(PATH, file_system=disk)
        await node.close()

    asyncio.run(first_start())
    assert disk.pictures
    for root, _, _ in disk.pictures:
        assert asyncio.run(topics_after(root)) == {}
