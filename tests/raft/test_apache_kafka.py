"""A quorum of two of our controllers and one of Apache Kafka 4.4.0. Its leaders fail."""

import asyncio
import subprocess

import pytest
from compat.lab import java
from compat.lab.apache_kafka import BRIEF_JVM_OPTIONS, LOGGING
from compat.lab.maven import next_jars
from compat.lab.toolchain import Missing
from tests.control.test_topic_decisions import topic
from tests.support.child import Child

from odradek.wire.generated.create_topics_request import CreateTopicsRequest

from .controllers import CLUSTER_ID, Quorum

pytestmark = [pytest.mark.java, pytest.mark.cluster]

THEIRS = 3
TIMES = {
    "controller.quorum.election.timeout.ms": "1000",
    "controller.quorum.fetch.timeout.ms": "3000",
    "controller.quorum.request.timeout.ms": "3000",
}


class ApacheKafka:
    """A controller of Apache Kafka, as voter 3."""

    def __init__(self, quorum):
        path = quorum.path / "kafka"
        path.mkdir()
        voters = (f"{node_id}@127.0.0.1:{port}" for node_id, port in quorum.ports.items())
        settings = {
            "process.roles": "controller",
            "node.id": str(THEIRS),
            "controller.quorum.voters": ",".join(voters),
            "listeners": f"CONTROLLER://127.0.0.1:{quorum.ports[THEIRS]}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": f"{path}/data",
            **TIMES,
        }
        self._properties = path / "server.properties"
        self._properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        self._logging = path / "log4j2.properties"
        self._logging.write_text(LOGGING)
        try:
            self._jars = next_jars()
            self._command("kafka.Kafka")
        except Missing as reason:
            pytest.skip(str(reason))
        format_ = ("format", "-t", CLUSTER_ID, "-c", str(self._properties))
        tool = [*self._command("kafka.tools.StorageTool"), *format_]
        subprocess.run(tool, check=True, capture_output=True)
        words = [*self._command("kafka.Kafka"), str(self._properties)]
        self._process = Child(words, output=path / "output")

    def _command(self, main_class):
        options = [*BRIEF_JVM_OPTIONS, f"-Dlog4j2.configurationFile={self._logging}"]
        return java.command(main_class, self._jars, options=options)

    def check(self):
        """Fail if the process has ended."""
        self._process.check()

    def kill(self):
        self._process.close()


def create(name):
    return CreateTopicsRequest(topics=[topic(name)], timeout_ms=60_000)


async def check(quorum):
    ours = list(quorum.controllers.values())
    for each in ours:
        await each.start()
    # Not on the event loop: the leader would resign after a pause of 4.5 s.
    theirs = await asyncio.to_thread(ApacheKafka, quorum)
    try:
        first = await quorum.active()
        await first.register_broker()
        await first.ask(create("first"))
        first = await leader_of_all(quorum, theirs)

        await first.kill()
        (survivor,) = quorum.running
        epoch = survivor.raft.machine.epoch
        await quorum.until(lambda: survivor.raft.machine.epoch > epoch)
        await quorum.until(lambda: survivor.raft.machine.leader_id in (survivor.id, THEIRS))
        before = survivor.raft.high_watermark
        await quorum.until(lambda: survivor.raft.high_watermark > before)
        await first.start()

        while first.raft.machine.leader_id != THEIRS:
            await quorum.until(lambda: first.raft.machine.leader_id > 0)
            for each in quorum.running:
                if each.controller.is_active:
                    await each.stop()
                    await each.start()
            await asyncio.sleep(0.1)
        before = first.raft.high_watermark
        await quorum.until(lambda: all(each.raft.high_watermark > before for each in ours))
        assert all("first" in each.loader.image.topics.by_name for each in ours)
    finally:
        theirs.kill()
    last = await quorum.active()
    await last.register_broker()
    await last.ask(create("last"))
    assert await quorum.until_equal() == ["first", "last"]
    logs = [b"".join(bytes(b.data) for b in each.raft.log.batches(0)) for each in ours]
    assert logs[0] == logs[1]


async def leader_of_all(quorum, theirs):
    """Our leader, when all other voters have its whole log. After a pause, it is another one."""

    def found():
        theirs.check()
        return [each for each in quorum.running if has_followers(each)]

    await quorum.until(found)
    return found()[0]


def has_followers(leader):
    """Whether all voters have the whole log. Only a leader knows replicas."""
    end_offset = leader.raft.log.end_offset
    replicas = {each.key.id: each.end_offset for each in leader.raft.replicas()}
    return all(replicas.get(each) == end_offset for each in (1, 2, THEIRS))


@pytest.mark.timeout(120)
@pytest.mark.slow("controllers of Apache Kafka start, and leaders are killed")
def test_a_quorum_of_both_kinds_survives_the_loss_of_its_leaders(tmp_path):
    async def run():
        quorum = Quorum(tmp_path, TIMES)
        del quorum.controllers[THEIRS]
        quorum.endpoints.pop(THEIRS).listener.close()
        try:
            await check(quorum)
        finally:
            for each in quorum.running:
                await each.stop()

    asyncio.run(run())
