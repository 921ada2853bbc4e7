"""The identity of an idempotent producer without transactions: InitProducerId, and bumps of the epoch.

The epoch grows in the producer alone. At its end a new producer id is asked for.
"""

from __future__ import annotations

from odradek.client.core.asks import Ask, may_pass
from odradek.client.core.backoff import Backoff, RandomNumber
from odradek.client.core.producer_batch import ProducerIdentity
from odradek.client.errors import ClientError, broker_error
from odradek.wire.generated.init_producer_id_request import InitProducerIdRequest
from odradek.wire.generated.init_producer_id_response import InitProducerIdResponse

EPOCH_MAX = 32767
_NO_TRANSACTIONS_MS = 2**31 - 1


class IdempotentIdentity:
    """A producer id and an epoch, or the request for them."""

    def __init__(
        self,
        random: RandomNumber,
        *,
        request_timeout_ms: int,
        retry_backoff_ms: int,
        retry_backoff_ms_max: int,
    ) -> None:
        self.identity: ProducerIdentity | None = None
        self.error: ClientError | None = None
        """Why there can be no identity, for example a missing right."""
        self.next_deadline_ms: int | None = None
        self._is_asked = False
        self._retry_at_ms = 0
        self._request_timeout_ms = request_timeout_ms
        self._backoff = Backoff(retry_backoff_ms, retry_backoff_ms_max, random)

    def bump(self, spent: ProducerIdentity) -> None:
        """Replace an identity, unless that has happened."""
        if self.identity == spent:
            producer_id, epoch = spent
            exhausted = epoch >= EPOCH_MAX
            self.identity = None if exhausted else ProducerIdentity(producer_id, epoch + 1)

    def poll(self, now_ms: int) -> list[Ask]:
        """Ask for a producer id if there is none."""
        self.next_deadline_ms = None
        if self.identity is not None or self._is_asked or self.error is not None:
            return []
        if now_ms < self._retry_at_ms:
            self.next_deadline_ms = self._retry_at_ms
            return []
        self._is_asked = True
        request = InitProducerIdRequest(
            transactional_id=None, transaction_timeout_ms=_NO_TRANSACTIONS_MS
        )
        return [
            Ask(
                None,
                request,
                InitProducerIdResponse,
                self._arrived,
                self._failed,
                timeout_ms=self._request_timeout_ms,
            )
        ]

    def _arrived(self, response: InitProducerIdResponse, now_ms: int) -> None:
        error = broker_error(response.error_code, subject="producer id")
        if error is not None:
            self._failed(error, now_ms)
            return
        self._is_asked = False
        self._backoff.succeeded()
        self.identity = ProducerIdentity(response.producer_id, response.producer_epoch)

    def _failed(self, error: ClientError, now_ms: int) -> None:
        self._is_asked = False
        if may_pass(error):
            self._retry_at_ms = now_ms + self._backoff.failed()
        else:
            self.error = error
