"""The parts of a simulation: time, event loop, network, executor."""

from __future__ import annotations

import asyncio

import pytest

from odradek.env.executor import Pool, call
from odradek.sim.executor import SimExecutor
from odradek.sim.loop import SimLoop, new_loop
from odradek.sim.lossy_file_system import LossyFileSystem, PowerLoss
from odradek.sim.network import CAPACITY_BYTES, SimHost, SimNetwork
from odradek.sim.simulation import NoEnd, SimClock, Simulation

PORT = 9092


def run(simulation: Simulation, loop: SimLoop, coroutine) -> object:
    """Run a coroutine on the loop, and return its result."""
    tasks: list[asyncio.Task] = []
    loop.call_soon(lambda: tasks.append(loop.create_task(coroutine)))
    simulation.run_until(lambda: bool(tasks) and tasks[0].done())
    return tasks[0].result()


# -- time and loops ---------------------------------------------------------------------------


def test_events_run_in_the_order_of_their_time_and_then_of_their_scheduling() -> None:
    simulation, seen = Simulation(1), []
    for name, when_ns in (("late", 2_000_000), ("first", 5), ("second", 5), ("past", -7)):
        simulation.at(when_ns, lambda name=name: seen.append((name, simulation.now_ns)))
    simulation.run_until(lambda: len(seen) == 4)
    assert [name for name, _ in seen] == ["past", "first", "second", "late"]
    assert [when for _, when in seen] == sorted(when for _, when in seen)
    with pytest.raises(NoEnd, match="no event is scheduled"):
        simulation.run_until(lambda: False)


def test_a_limit_is_counted_from_when_it_is_set() -> None:
    simulation = Simulation(1)

    def again() -> None:
        simulation.after(1_000_000_000, again)

    again()
    simulation.run_until(lambda: simulation.now_ns > 100_000_000_000)
    simulation.limit(60_000_000_000)
    with pytest.raises(NoEnd, match=r"no end after 16[01] s"):
        simulation.run_until(lambda: False)


def test_sleeping_takes_virtual_time_only() -> None:
    simulation = Simulation(1)
    loop = new_loop(simulation, "process")

    async def sleep() -> float:
        async with asyncio.timeout(120):
            await asyncio.sleep(100)
        return asyncio.get_running_loop().time()

    assert 100 <= run(simulation, loop, sleep()) < 101


def test_a_stopped_process_does_nothing_any_more_and_is_unwound_at_once() -> None:
    simulation, seen = Simulation(1), []
    loop = new_loop(simulation, "process")

    async def work() -> None:
        try:
            await asyncio.sleep(1)
            seen.append("worked")
        finally:
            seen.append("unwound")
            loop.call_soon(seen.append, "scheduled by what is unwound")

    loop.call_soon(lambda: loop.create_task(work()))
    loop.call_later(2, seen.append, "called")
    simulation.at(500_000_000, loop.close)
    simulation.at(3_000_000_000, lambda: seen.append("end"))
    simulation.run_until(lambda: "end" in seen)
    assert seen == ["unwound", "end"]
    assert simulation.failures == []


def test_an_exception_that_nobody_handles_is_a_failure_of_the_run() -> None:
    simulation = Simulation(1)
    loop = new_loop(simulation, "process")
    loop.call_soon(lambda: 1 // 0)
    simulation.after(1_000, lambda: None)
    simulation.run_until(lambda: simulation.now_ns > 1_000)
    assert len(simulation.failures) == 1
    assert "ZeroDivisionError" in simulation.failures[0]


# -- the network ------------------------------------------------------------------------------


class Ends:
    """Two processes on two machines. The second process listens."""

    def __init__(self, seed: int = 1) -> None:
        self.simulation = Simulation(seed)
        self.network = SimNetwork(self.simulation)
        self.client_loop = new_loop(self.simulation, "client")
        self.client: SimHost = self.network.host("client", self.client_loop)
        self.start_server()

    def start_server(self) -> None:
        self.server_loop = new_loop(self.simulation, "server")
        self.server: SimHost = self.network.host("server", self.server_loop)
        self.listener = self.server.bind("", PORT)
        self.listener.listen(10)

    async def connect(self):
        return await self.client.connect("server", PORT, 1000)

    def run(self, coroutine) -> object:
        return run(self.simulation, self.client_loop, coroutine)


async def received(transport, count: int) -> bytes:
    """Read `count` bytes, or fewer if the stream ends."""
    data, buffer = bytearray(), bytearray(10_000)
    while len(data) < count:
        try:
            got = transport.recv_into(buffer)
        except BlockingIOError:
            await asyncio.sleep(0.001)
            continue
        if not got:
            break
        data += buffer[:got]
    return bytes(data)


@pytest.mark.parametrize("seed", range(10))
def test_bytes_arrive_in_their_order_and_no_more_than_fit_are_taken(seed: int) -> None:
    ends = Ends(seed)
    content = bytes(range(256)) * 2000

    async def scenario() -> bytes:
        ours = await ends.connect()
        theirs = ends.listener.accept()
        sent = 0
        got = b""
        while sent < len(content):
            try:
                sent += ours.send(memoryview(content)[sent : sent + 30_000])
            except BlockingIOError:
                assert sent - len(got) == CAPACITY_BYTES
                got += await received(theirs, 1)
        ours.close()
        return got + await received(theirs, len(content))

    assert ends.run(scenario()) == content


def test_readiness_is_a_state() -> None:
    ends = Ends()
    calls = []

    async def scenario() -> None:
        ours = await ends.connect()
        theirs = ends.listener.accept()
        theirs.watch_readable(lambda: calls.append("readable"))
        await asyncio.sleep(1)
        assert calls == []
        ours.send(b"x")
        await asyncio.sleep(0.01)
        assert len(calls) > 2, "in every iteration, as long as nothing reads"
        assert await received(theirs, 1) == b"x"
        calls.clear()
        await asyncio.sleep(1)
        assert len(calls) <= 1
        theirs.unwatch_readable()

    ends.run(scenario())


def test_nobody_listens() -> None:
    ends = Ends()
    with pytest.raises(ConnectionRefusedError):
        ends.run(ends.client.connect("server", 1, 1000))
    ends.server.stop(notify=False)
    with pytest.raises(TimeoutError):
        ends.run(ends.client.connect("server", PORT, 1000))


def test_a_connection_request_to_a_machine_that_is_down_is_repeated() -> None:
    ends = Ends()

    async def scenario() -> float:
        ends.server.stop(notify=False)
        ends.simulation.after(2_500_000_000, ends.start_server)
        await ends.client.connect("server", PORT, 10_000)
        return ends.client_loop.time()

    assert 3 < ends.run(scenario()) < 3.1


def test_the_connections_of_a_process_that_ended_are_reset() -> None:
    ends = Ends()

    async def scenario() -> None:
        ours = await ends.connect()
        ends.server.stop(notify=True)
        await asyncio.sleep(0.1)
        with pytest.raises(ConnectionResetError):
            ours.recv_into(bytearray(1))

    ends.run(scenario())


def test_cuts_of_one_direction_end_with_the_last_one() -> None:
    simulation = Simulation(1)
    network = SimNetwork(simulation)
    network.cut("a", "b", 900_000_000)
    network.cut("a", "b", 100_000_000)
    assert network.arrival_ns("a", "b", 0) >= 900_000_000
    assert network.arrival_ns("b", "a", 0) < 100_000_000
    assert not network.is_connected("a", "b")
    assert not network.is_connected("b", "a")
    assert network.is_connected("a", "c")
    simulation.at(900_000_000, lambda: None)
    simulation.run_until(lambda: simulation.now_ns >= 900_000_000)
    assert network.is_connected("b", "a")


def test_a_machine_without_power_is_silent_until_its_next_process_resets_the_connection() -> None:
    ends = Ends()

    async def scenario() -> None:
        ours = await ends.connect()
        ends.server.stop(notify=False)
        ours.send(b"lost")
        await asyncio.sleep(1)
        with pytest.raises(BlockingIOError):
            ours.recv_into(bytearray(1))
        ends.start_server()
        ours.send(b"unknown")
        await asyncio.sleep(1)
        with pytest.raises(ConnectionResetError):
            ours.recv_into(bytearray(1))

    ends.run(scenario())


# -- threads ----------------------------------------------------------------------------------


def executor(simulation: Simulation, loop: SimLoop) -> SimExecutor:
    return SimExecutor(loop, simulation.random("threads"), LossyFileSystem(), SimClock(simulation))


def test_works_of_one_thread_run_in_their_order_and_close_waits_for_them() -> None:
    simulation, seen = Simulation(1), []
    loop = new_loop(simulation, "process")

    async def scenario() -> None:
        threads = executor(simulation, loop)
        for number in range(20):
            threads.submit(
                lambda number=number: seen.append(("work", number)),
                lambda error, number=number: seen.append(("done", number)),
                Pool.METADATA,
            )
        assert seen == []
        await threads.close()

    run(simulation, loop, scenario())
    assert seen == [(what, number) for number in range(20) for what in ("work", "done")]


def test_any_exception_of_a_work_is_reported() -> None:
    simulation = Simulation(1)
    loop = new_loop(simulation, "process")

    async def scenario() -> None:
        with pytest.raises(ZeroDivisionError):
            await call(executor(simulation, loop), lambda: 1 // 0)

    run(simulation, loop, scenario())


def test_a_process_may_end_between_the_effect_of_a_work_and_its_report() -> None:
    simulation, seen = Simulation(1), []
    loop = new_loop(simulation, "process")
    threads = executor(simulation, loop)
    loop.call_soon(
        lambda: threads.submit(lambda: seen.append("effect"), lambda _: seen.append("reported"))
    )
    simulation.run_until(lambda: "effect" in seen)
    loop.stop()
    simulation.after(10_000_000_000, lambda: seen.append("end"))
    simulation.run_until(lambda: "end" in seen)
    assert seen == ["effect", "end"]


# -- the disk ---------------------------------------------------------------------------------


def test_a_disk_that_is_switched_off_does_nothing() -> None:
    disk = LossyFileSystem()
    descriptor = disk.open("/file", 66)
    disk.pwrite(descriptor, b"before", 0)
    disk.switch_off()
    for attempt in (
        lambda: disk.pwrite(descriptor, b"after", 0),
        lambda: disk.pread(descriptor, 1, 0),
        lambda: disk.fsync(descriptor),
        lambda: disk.status("/file"),
        lambda: disk.scan("/"),
        lambda: disk.open("/file", 0),
    ):
        with pytest.raises(PowerLoss):
            attempt()
    disk.close(descriptor)
    after = LossyFileSystem(disk.root)
    assert after.pread(after.open("/file", 0), 100, 0) == b"before"
