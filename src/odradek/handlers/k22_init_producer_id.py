"""InitProducerId (22), versions 0-5: a producer gets its producer id and epoch.

- Without a transactional id every request gets a new producer id with epoch 0.
- With a transactional id, the producer gets a higher epoch, or a new producer id if the last epoch
  is used up. This fences earlier producers with the same transactional id. An open transaction is
  aborted first. Until then the error is CONCURRENT_TRANSACTIONS, and the producer retries.
- A request must contain both a producer id and an epoch, or neither. Otherwise the error is
  INVALID_REQUEST.
- A fenced producer gets the error PRODUCER_FENCED (before version 4: INVALID_PRODUCER_EPOCH).
- Version 6 (KIP-939) is unstable, as in Apache Kafka 4.3, and is served only with
  `unstable.api.versions.enable`. If `transaction.two.phase.commit.enable` is also set, a producer
  can have transactions that never time out. A request to keep a prepared transaction gets the error
  UNSUPPORTED_VERSION, as in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Coroutine
from functools import partial
from typing import Any

from odradek.broker.broker import Broker
from odradek.broker.clients.request_context import RequestContext
from odradek.handlers.authorization import (
    TOPIC,
    TRANSACTIONAL_ID,
    AclOperation,
    permits_cluster,
    require,
)
from odradek.handlers.handler import Handler
from odradek.handlers.transactions import answered, error_for
from odradek.model.errors import ApiError, ErrorCode
from odradek.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from odradek.wire.generated.init_producer_id_request import InitProducerIdRequest
from odradek.wire.generated.init_producer_id_response import InitProducerIdResponse

FENCED_VERSION = 4


def handle(
    broker: Broker, context: RequestContext, request: InitProducerIdRequest
) -> InitProducerIdResponse | Coroutine[Any, Any, InitProducerIdResponse]:
    """Return a producer id and epoch, without waiting if that is possible."""
    _authorize(broker, context, request)
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        raise ApiError(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is not None:
        refused = partial(_refused, context.api_version)
        return answered(broker.coordinators.transactions.initialize, request, refused=refused)
    producer_id = broker.coordinators.producer_ids.take()
    if producer_id is None:
        return _wait(broker)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


def _authorize(broker: Broker, context: RequestContext, request: InitProducerIdRequest) -> None:
    """Check that the client may use the transactional id, or may write to any topic (KIP-679).

    Raises:
        ApiError: TRANSACTIONAL_ID_AUTHORIZATION_FAILED or CLUSTER_AUTHORIZATION_FAILED.
    """
    name = request.transactional_id
    if name is not None:
        require(broker, context, AclOperation.WRITE, TRANSACTIONAL_ID, name)
        if request.enable2_pc:
            require(broker, context, AclOperation.TWO_PHASE_COMMIT, TRANSACTIONAL_ID, name)
        return
    write = AclOperation.IDEMPOTENT_WRITE
    if permits_cluster(broker, context, write, log_denied=False):
        return
    assert broker.authorizer is not None
    if not broker.authorizer.permits_anywhere(context, AclOperation.WRITE, TOPIC):
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


async def _wait(broker: Broker) -> InitProducerIdResponse:
    producer_id = await broker.coordinators.producer_ids.allocate()
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


def _refused(api_version: int, error: ApiError) -> InitProducerIdResponse:
    code = error_for(error, api_version, FENCED_VERSION)
    return InitProducerIdResponse(error_code=code, producer_epoch=NO_PRODUCER_EPOCH)


def _error_response(request: InitProducerIdRequest, error: ApiError) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error.code, producer_epoch=NO_PRODUCER_EPOCH)


HANDLER = Handler(
    request=InitProducerIdRequest,
    handle=handle,
    error_response=_error_response,
)
