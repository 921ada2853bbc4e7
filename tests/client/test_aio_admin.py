"""`aio.Admin` has the calls of `Admin`, in turns, and a cancelled one spoils nothing."""

from __future__ import annotations

import asyncio

import pytest

from odradek.client import Admin, aio
from odradek.client.errors import SomeFailedError, UnreachableError
from odradek.testing import Broker


@pytest.fixture(scope="module")
def broker():
    with Broker(topics={"t": 2}) as broker:
        yield broker


def test_it_has_the_same_calls():
    for name in dir(Admin):
        if not name.startswith("_"):
            assert asyncio.iscoroutinefunction(getattr(aio.Admin, name)), name
    assert aio.Admin.create_topics.__doc__ == Admin.create_topics.__doc__


def test_calls_of_several_tasks(broker):
    async def run():
        async with aio.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            names = [f"made-{number}" for number in range(5)]
            made = await asyncio.gather(*(admin.create_topic(each, 1) for each in names))
            assert [each.name for each in made] == names
            found = await admin.describe_topics(["t", *names])
            assert len(found["t"].partitions) == 2
            with pytest.raises(SomeFailedError):
                await admin.delete_topics(["missing"])

    asyncio.run(run())


def test_a_cancelled_call(broker):
    async def run():
        async with aio.Admin({"bootstrap.servers": broker.bootstrap_servers}) as admin:
            await admin.list_topics()
            broker.pause()
            try:
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(admin.list_topics(), 0.1)
                waiting = asyncio.create_task(admin.describe_cluster())
                await asyncio.sleep(0.1)
                assert not waiting.done()
            finally:
                broker.resume()
            assert (await waiting).brokers
            assert "t" in [each.name for each in await admin.list_topics()]

    asyncio.run(run())


def test_nobody_listens():
    async def run():
        async with aio.Admin(bootstrap_servers="127.0.0.1:1") as admin:
            with pytest.raises(UnreachableError):
                await admin.list_topics()

    asyncio.run(run())
