"""Producer ids: each id is assigned once, from blocks that are requested in advance."""

from __future__ import annotations

import asyncio

import pytest
from tests.coordinator.support import VirtualClock, VirtualLoop

from odradek.broker.coordinator.producer_ids import ProducerIds
from odradek.model.errors import ApiError, ErrorCode
from odradek.wire.generated.allocate_producer_ids_response import AllocateProducerIdsResponse


class Controller:
    def __init__(self):
        self.next = 1000
        self.length = 10
        self.asked = []
        self.error = ErrorCode.NONE
        self.delay_s = 0.01

    async def submit(self, context, request):
        self.asked.append((request.broker_id, request.broker_epoch))
        await asyncio.sleep(self.delay_s)
        if self.error is ErrorCode.NOT_CONTROLLER:
            raise ApiError(self.error)
        start, self.next = self.next, self.next + self.length
        return AllocateProducerIdsResponse(
            error_code=self.error, producer_id_start=start, producer_id_len=self.length
        )


class Setup:
    def __init__(self):
        self.loop = VirtualLoop()
        self.controller = Controller()
        self.ids = ProducerIds(3, lambda: 77, self.controller, VirtualClock(self.loop), self.loop)

    def get(self, awaitable):
        return self.loop.run_until_complete(awaitable)


@pytest.fixture
def setup():
    setup = Setup()
    yield setup
    setup.get(setup.ids.close())
    setup.loop.close()


def test_every_id_once(setup):
    assert setup.ids.take() is None
    seen = [setup.get(setup.ids.allocate()) for _ in range(35)]
    assert seen == list(range(1000, 1035))
    assert set(setup.controller.asked) == {(3, 77)}


def test_the_next_block_is_there_before_it_is_needed(setup):
    setup.get(setup.ids.allocate())
    taken = []
    for _ in range(100):
        taken.append(setup.ids.take())
        setup.get(asyncio.sleep(0.02))
    assert None not in taken
    assert len(setup.controller.asked) == 11


def test_those_who_wait_share_one_request(setup):
    async def together():
        return await asyncio.gather(*(setup.ids.allocate() for _ in range(5)))

    assert setup.get(together()) == [1000, 1001, 1002, 1003, 1004]
    assert len(setup.controller.asked) == 1


@pytest.mark.parametrize(
    "error",
    [ErrorCode.NOT_CONTROLLER, ErrorCode.STALE_BROKER_EPOCH, ErrorCode.UNKNOWN_SERVER_ERROR],
)
def test_a_controller_that_refuses(setup, error):
    setup.controller.error = error
    with pytest.raises(ApiError) as refused:
        setup.get(setup.ids.allocate())
    assert refused.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    with pytest.raises(ApiError):
        setup.get(setup.ids.allocate())
    assert len(setup.controller.asked) == 1, "no second request before the delay has passed"
    setup.controller.error = ErrorCode.NONE
    setup.get(asyncio.sleep(0.06))
    assert setup.get(setup.ids.allocate()) >= 1000


def test_a_controller_that_does_not_answer(setup):
    setup.controller.delay_s = 100
    with pytest.raises(ApiError):
        setup.get(setup.ids.allocate())


@pytest.mark.parametrize(("start", "length"), [(-5, 10), (5, -1), (5, 0), (2**63 - 5, 10)])
def test_a_block_that_cannot_be(setup, start, length):
    setup.controller.next, setup.controller.length = start, length
    with pytest.raises(ApiError):
        setup.get(setup.ids.allocate())


def test_a_block_that_was_handed_out_before(setup):
    for _ in range(10):
        setup.get(setup.ids.allocate())
    setup.get(asyncio.sleep(0.02))
    for _ in range(9):
        setup.ids.take()
    setup.controller.next = 1000
    setup.get(asyncio.sleep(0.02))
    setup.ids.take()
    assert setup.ids.take() is None
