"""The computing time of coroutines, which quotas count."""

from __future__ import annotations

import asyncio

import pytest

from odradek.handlers.measured_steps import measured


def test_only_the_steps_of_a_coroutine_are_measured():
    """Not the time between them. Results, exceptions and cancellation pass through."""
    now, steps = [0], []

    async def work() -> str:
        now[0] += 5
        await asyncio.sleep(0.001)
        now[0] += 2
        try:
            await asyncio.wait_for(asyncio.Future(), 0.001)
        except TimeoutError:
            now[0] += 1
        return "done"

    async def elsewhere() -> None:
        while True:
            now[0] += 100
            await asyncio.sleep(0)

    async def main() -> None:
        other = asyncio.ensure_future(elsewhere())
        try:
            assert await measured(work(), lambda: now[0], steps.append) == "done"
            with pytest.raises(ZeroDivisionError):
                await measured(failing(), lambda: now[0], steps.append)
            waiting = asyncio.ensure_future(measured(forever(), lambda: now[0], steps.append))
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
        finally:
            other.cancel()

    async def failing() -> None:
        await asyncio.sleep(0)
        raise ZeroDivisionError

    async def forever() -> None:
        await asyncio.Future()

    asyncio.run(main())
    assert sum(steps) == 8
