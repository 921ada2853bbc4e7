"""Every task reports its completion exactly once, on the loop's thread, whatever it raised."""

from __future__ import annotations

import asyncio
import threading

import pytest

from odradek.env.executor import THREADS, Executor, InlineExecutor, Pool, ThreadExecutor, call


class Defect(Exception):
    """No OSError: nobody expects it."""


class Executors:
    """Makes the executors, each with the loop that runs."""

    @staticmethod
    def threads() -> Executor:
        return ThreadExecutor(asyncio.get_running_loop())

    @staticmethod
    def inline() -> Executor:
        return InlineExecutor()


@pytest.fixture(params=[Executors.threads, Executors.inline])
def make(request):
    return request.param


@pytest.mark.parametrize("error", [None, OSError(5, "I/O error"), Defect("no"), AssertionError()])
def test_a_work_reports_its_end_once_with_what_it_raised(make, error):
    async def scenario() -> list:
        executor = make()
        ends = []

        def work() -> None:
            if error is not None:
                raise error

        executor.submit(work, lambda got: ends.append((got, threading.current_thread())))
        await executor.close()
        return ends

    assert asyncio.run(scenario()) == [(error, threading.main_thread())]


def test_work_runs_in_another_thread_and_the_works_of_a_pool_begin_in_order():
    async def scenario() -> None:
        executor = ThreadExecutor(asyncio.get_running_loop())
        begun, threads = [], set()

        def work(number: int) -> None:
            begun.append(number)
            threads.add(threading.current_thread())

        for number in range(20):
            executor.submit(lambda number=number: work(number), lambda _: None, Pool.METADATA)
        await executor.close()
        assert begun == list(range(20))
        assert threading.main_thread() not in threads

    asyncio.run(scenario())


def test_a_pool_that_is_busy_does_not_hold_up_another():
    async def scenario() -> None:
        executor = ThreadExecutor(asyncio.get_running_loop())
        release = threading.Event()
        for _ in range(2 * THREADS[Pool.DISK]):
            executor.submit(release.wait, lambda _: None)
        try:
            assert await call(executor, lambda: "done", Pool.METADATA) == "done"
        finally:
            release.set()
        await executor.close()

    asyncio.run(scenario())


def test_close_waits_for_what_the_ends_of_works_submit():
    async def scenario() -> list[int]:
        executor = ThreadExecutor(asyncio.get_running_loop())
        ends: list[int] = []

        def again(_: BaseException | None) -> None:
            ends.append(len(ends))
            if len(ends) < 5:
                executor.submit(lambda: None, again)

        executor.submit(lambda: None, again)
        await executor.close()
        return ends

    assert asyncio.run(scenario()) == [0, 1, 2, 3, 4]


def test_call_gives_the_result_or_the_exception(make):
    async def scenario() -> None:
        executor = make()
        assert await call(executor, lambda: 42) == 42
        with pytest.raises(ZeroDivisionError):
            await call(executor, lambda: 1 // 0)
        future = call(executor, lambda: 42)
        future.cancel()
        await executor.close()  # the end of a function that nobody waits for is no error

    asyncio.run(scenario())


def test_map_keeps_the_order_and_raises_in_its_turn(make):
    async def scenario() -> None:
        executor = make()
        results = executor.map(lambda number: 12 // number, (3, 2, 1, 0, 4), 3)
        assert [next(results) for _ in range(3)] == [4, 6, 12]
        with pytest.raises(ZeroDivisionError):
            next(results)
        await executor.close()

    asyncio.run(scenario())


def test_a_child_process_that_ends_by_itself_is_noticed():
    async def scenario() -> None:
        executor = ThreadExecutor(asyncio.get_running_loop())
        child = executor.start_process("this")  # prints, and ends
        said = b""
        while child.is_alive:
            said += child.receive()
            await asyncio.sleep(0.001)
        assert b"Zen" in said
        child.send(b"nobody hears this\n")
        child.kill()
        await executor.close()

    asyncio.run(scenario())
