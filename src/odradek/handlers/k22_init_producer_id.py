"""InitProducerId (22), versions 0-5: a producer id for an idempotent producer.

- Without a transactional id every request gets a new id with epoch 0.
- A producer id without an epoch, or the reverse, is INVALID_REQUEST.
- Gap: transactions are not served; with a transactional id the answer is UNSUPPORTED_VERSION
  (an empty one is INVALID_REQUEST, as in Apache Kafka).
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from odradek.broker.broker import Broker
from odradek.broker.context import RequestContext
from odradek.handlers.handler import Handler
from odradek.model.errors import ApiError, ErrorCode
from odradek.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from odradek.wire.generated.init_producer_id_request import InitProducerIdRequest
from odradek.wire.generated.init_producer_id_response import InitProducerIdResponse


def handle(
    broker: Broker, context: RequestContext, request: InitProducerIdRequest
) -> InitProducerIdResponse | Coroutine[Any, Any, InitProducerIdResponse]:
    """A producer id, at once if there is one at hand."""
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        raise ApiError(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is not None:
        if not request.transactional_id:
            raise ApiError(ErrorCode.INVALID_REQUEST)
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
    producer_id = broker.producer_ids.take()
    if producer_id is None:
        return _wait(broker)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


async def _wait(broker: Broker) -> InitProducerIdResponse:
    producer_id = await broker.producer_ids.allocate()
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


def _error_response(request: InitProducerIdRequest, error: ApiError) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error.code, producer_epoch=NO_PRODUCER_EPOCH)


HANDLER = Handler(
    request=InitProducerIdRequest,
    versions=(0, 5),
    handle=handle,
    error_response=_error_response,
)
