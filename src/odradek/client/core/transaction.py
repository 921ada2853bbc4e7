"""The transactions of one producer: begin, offsets, commit and abort (KIP-98, KIP-890).

    uninitialized --init--> initializing --> ready --begin--> in transaction --end--> ending --> ready
                                                                    |                   ^
                                                                    +--error--> abortable
    any --fenced, or another error that no abort mends--> fatal

With version 2 of transactions (the finalized feature `transaction.version`) a broker adds a partition
when it receives the first batch, and each end of a transaction returns the identity for the next one.
With version 1, partitions and groups are added before, and after an abortable error InitProducerId
increments the epoch. The version is read when the producer begins and when a transaction ends.

One request to the coordinator is in flight at a time, in this order: InitProducerId, partitions,
offsets, end. A request without a response is repeated: coordinators recognize it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

from odradek.client.core import transaction_requests as requests
from odradek.client.core.asks import NO_VERSION_LIMIT, Ask, may_pass
from odradek.client.core.backoff import Backoff, RandomNumber
from odradek.client.core.operation import Operation
from odradek.client.core.producer_batch import ProducerIdentity
from odradek.client.core.routes import COORDINATOR, GROUP, TRANSACTION, Routes
from odradek.client.core.transaction_errors import (
    Consequence,
    explained,
    of_batch,
    of_coordinator,
)
from odradek.client.errors import (
    BrokerError,
    ClientError,
    TransactionAbortedError,
    TransactionStateError,
)
from odradek.client.group_metadata import CommittedOffset, GroupMetadata
from odradek.model.topic_partition import TopicPartition
from odradek.wire.generated.add_offsets_to_txn_response import AddOffsetsToTxnResponse
from odradek.wire.generated.add_partitions_to_txn_response import AddPartitionsToTxnResponse
from odradek.wire.generated.end_txn_response import EndTxnResponse
from odradek.wire.generated.init_producer_id_response import InitProducerIdResponse
from odradek.wire.generated.txn_offset_commit_response import TxnOffsetCommitResponse
from odradek.wire.primitives import Message

FEATURE = "transaction.version"
_NO_IDENTITY = ProducerIdentity(-1, -1)


class TransactionState(Enum):
    """What a transactional producer can do."""

    UNINITIALIZED = "uninitialized"
    INITIALIZING = "initializing"
    READY = "ready"
    IN_TRANSACTION = "in transaction"
    ABORTABLE = "abortable"
    ENDING = "ending"
    FATAL = "fatal"


class TransactionMachine:
    """The state of the transactions of one transactional id."""

    def __init__(
        self,
        routes: Routes,
        transactional_id: str,
        random: RandomNumber,
        *,
        transaction_timeout_ms: int,
        request_timeout_ms: int,
        retry_backoff_ms: int,
        retry_backoff_ms_max: int,
        joined: ProducerIdentity | None = None,
    ) -> None:
        """`joined` is the identity of a transaction that another process has begun and will end."""
        self.transactional_id = transactional_id
        self.identity = joined
        self.state = TransactionState.UNINITIALIZED
        if joined is not None:
            self.state = TransactionState.IN_TRANSACTION
        self.error: ClientError | None = None
        """Why the transaction must be aborted, or the producer be closed."""
        self.operation: Operation | None = None
        """What the user waits for: the initialization, offsets, or the end."""
        self.is_version_2 = False
        self.next_deadline_ms: int | None = None
        self.must_drop_batches = False
        """Whether batches that are not in flight must fail, because the transaction is aborted."""
        self._routes = routes
        self._is_joined = joined is not None
        self._transaction_timeout_ms = transaction_timeout_ms
        self._request_timeout_ms = request_timeout_ms
        self._backoff = Backoff(retry_backoff_ms, retry_backoff_ms_max, random)
        self._retry_at_ms = 0
        self._is_asked = False
        self._pending: set[TopicPartition] = set()
        self._added: set[TopicPartition] = set()
        self._offsets: dict[TopicPartition, CommittedOffset] = {}
        self._group: GroupMetadata | None = None
        self._group_is_added = False
        self._has_offsets = False
        self._is_commit = False
        self._must_bump = False
        """Whether InitProducerId must increment the epoch after the end."""

    # -- the user -------------------------------------------------------------------------------

    def init(self) -> Operation:
        """Get a new epoch of the transactional id, which fences earlier producers.

        Raises:
            TransactionStateError: this was called before.
        """
        if self.state == TransactionState.INITIALIZING and self.operation is not None:
            return self.operation
        self._demand("init_transactions", TransactionState.UNINITIALIZED)
        self.state = TransactionState.INITIALIZING
        return self._begin_operation("InitProducerId")

    def begin(self) -> None:
        """Begin a transaction, which no broker notices.

        Raises:
            TransactionStateError: there is one, or `init` was not called.
            ClientError: the producer has a fatal error.
        """
        self._demand("begin_transaction", TransactionState.READY)
        self.state = TransactionState.IN_TRANSACTION
        self._added.clear()
        self._pending.clear()
        self._has_offsets = self._group_is_added = False
        self.must_drop_batches = False

    def check_send(self) -> None:
        """Check that records can be sent.

        Raises:
            TransactionStateError: no transaction is open.
            ClientError: the transaction must be aborted, and why.
        """
        if self.state != TransactionState.IN_TRANSACTION:
            self._raise_error()
            self._demand("send", TransactionState.IN_TRANSACTION)

    def add_offsets(
        self, offsets: Mapping[TopicPartition, CommittedOffset], group: GroupMetadata
    ) -> Operation:
        """Commit the offsets of a group with the transaction.

        Raises:
            TransactionStateError: no transaction is open.
            ClientError: the transaction must be aborted, and why.
        """
        self.check_send()
        if self._group is not None:
            raise TransactionStateError("the offsets of the previous call have no answer yet")
        self._offsets = dict(offsets)
        self._group = group
        self._has_offsets = True
        return self._begin_operation("TxnOffsetCommit")

    def end(self, *, is_commit: bool) -> Operation:
        """Commit or abort. A call that has timed out is continued by the same call.

        Raises:
            TransactionStateError: no transaction is open, or the other call has timed out.
            ClientError: the transaction cannot be committed, and why.
        """
        name = "commit_transaction" if is_commit else "abort_transaction"
        if self.state == TransactionState.ENDING and self.operation is not None:
            if self._is_commit != is_commit:
                other = "commit_transaction" if self._is_commit else "abort_transaction"
                raise TransactionStateError(
                    f"{name} is not possible: {other} has timed out and must be called again"
                )
            return self.operation
        if is_commit or self.state == TransactionState.FATAL:
            self._raise_error()
        if self.state == TransactionState.ABORTABLE:
            self._must_bump = self._must_bump or not self.is_version_2
        else:
            self._demand(name, TransactionState.IN_TRANSACTION)
        self.state = TransactionState.ENDING
        self._is_commit = is_commit
        if not is_commit:
            self.must_drop_batches = True
            self._pending.clear()
            self._drop_offsets()
        return self._begin_operation("EndTxn")

    def _begin_operation(self, name: str) -> Operation:
        self.operation = Operation(name)
        return self.operation

    def _demand(self, what: str, *states: TransactionState) -> None:
        if self.state not in states:
            self._raise_error()
            raise TransactionStateError(f"{what} is not possible: {_HINTS[self.state]}")

    def _raise_error(self) -> None:
        if self.error is not None and self.state in (
            TransactionState.ABORTABLE,
            TransactionState.FATAL,
        ):
            raise self.error

    # -- batches --------------------------------------------------------------------------------

    def use(self, partition: TopicPartition) -> None:
        """Note that a batch of the transaction goes to a partition."""
        if partition not in self._added:
            self._pending.add(partition)
            if self.is_version_2:
                self._add_pending()

    def may_send(self, partition: TopicPartition) -> bool:
        """Whether the partition is a part of the transaction, so that batches can be sent."""
        return partition in self._added and self.identity is not None

    @property
    def must_abort(self) -> bool:
        """Whether a transaction is open, which can be aborted."""
        return self.state in (TransactionState.IN_TRANSACTION, TransactionState.ABORTABLE)

    @property
    def may_add(self) -> bool:
        """Whether records can be sent."""
        return self.state == TransactionState.IN_TRANSACTION

    @property
    def is_completing(self) -> bool:
        """Whether all batches must be sent now."""
        return self.state == TransactionState.ENDING

    def batch_dropped(self, *, has_sequence: bool) -> None:
        """A batch is not sent any more. If it had a sequence number, there is a gap."""
        if has_sequence and not self.is_version_2:
            self._must_bump = True

    def batch_failed(self, error: ClientError, *, has_sequence: bool) -> ClientError:
        """A batch has failed for good: the transaction must be aborted. Return the error to show."""
        self.batch_dropped(has_sequence=has_sequence)
        if isinstance(error, TransactionAbortedError):
            return error
        shown = explained(error, self.transactional_id)
        if of_batch(error) == Consequence.FATAL:
            self._fail(shown)
        else:
            self._abort(shown)
        return shown

    def _abort(self, error: ClientError) -> None:
        """The transaction can only be aborted now."""
        if self.state == TransactionState.ENDING and not self._is_commit:
            return  # this is being done
        if self.state in (TransactionState.FATAL, TransactionState.ABORTABLE):
            return
        self.state = TransactionState.ABORTABLE
        self.error = error
        self.must_drop_batches = True
        self._pending.clear()
        self._drop_offsets()
        self._finish(error)

    def _fail(self, error: ClientError) -> None:
        self.state = TransactionState.FATAL
        self.error = error
        self.must_drop_batches = True
        self._drop_offsets()
        self._finish(error)

    def _drop_offsets(self) -> None:
        self._offsets = {}
        self._group = None

    def _finish(self, error: ClientError | None = None) -> None:
        operation, self.operation = self.operation, None
        if operation is not None:
            operation.finish(error)

    # -- requests -------------------------------------------------------------------------------

    def poll(self, now_ms: int, *, has_batches: bool) -> list[Ask]:
        """Return the request that is due. `has_batches` says that batches are not done."""
        self.next_deadline_ms = None
        if self._is_asked or self.state == TransactionState.FATAL:
            return []
        if self._pending:
            if not self._knows_version():
                return []
            if self.is_version_2:
                self._add_pending()
        if now_ms < self._retry_at_ms:
            self.next_deadline_ms = self._retry_at_ms
            return []
        try:
            return self._due(has_batches)
        except BrokerError as error:  # the coordinator cannot be found
            self._refused(error, now_ms, "FindCoordinator")
            return []

    def _knows_version(self) -> bool:
        """Read the version of a joined transaction, which is known after the first answer."""
        if self._is_joined:
            self.is_version_2 = self._routes.feature(FEATURE) >= 2
            return self._routes.has_answered
        return True

    def _add_pending(self) -> None:
        self._added |= self._pending
        self._pending.clear()

    def _due(self, has_batches: bool) -> list[Ask]:
        if self.state == TransactionState.INITIALIZING:
            return self._init_ask()
        if self._pending:
            return self._partitions_ask()
        if self._group is not None:
            return self._offsets_ask(self._group)
        if self.state != TransactionState.ENDING or has_batches:
            return []
        if self.is_version_2:
            is_empty = not self._added and not self._has_offsets
        else:
            is_empty = not self._added and not self._group_is_added
        if not is_empty:
            return self._end_ask()
        self._ended(None)
        return self._init_ask() if self._is_initializing else []

    def _ask(
        self,
        request: Message,
        response_class: type[Message],
        read: Any,
        version_max: int = NO_VERSION_LIMIT,
        group: str | None = None,
    ) -> list[Ask]:
        """Send a request to the coordinator of the transactional id, or of a group."""
        kind, key = (TRANSACTION, self.transactional_id) if group is None else (GROUP, group)
        node = self._routes.coordinator(kind, key)
        if node is None or not self._routes.is_ready((node, COORDINATOR)):
            return []
        self._is_asked = True
        name = type(request).__name__.removesuffix("Request")

        def answered(response: Message, now_ms: int) -> None:
            self._is_asked = False
            try:
                read(response)
            except BrokerError as error:
                self._refused(error, now_ms, name, (kind, key))
            else:
                self._backoff.succeeded()

        def failed(error: ClientError, now_ms: int) -> None:
            self._is_asked = False
            self._routes.forget_coordinator(kind, key)
            if may_pass(error):
                self._retry_at_ms = now_ms + self._backoff.failed()
                self._note(error)
            else:
                self._fail(error)

        link = node, COORDINATOR
        return [
            Ask(
                link,
                request,
                response_class,
                answered,
                failed,
                timeout_ms=self._request_timeout_ms,
                version_max=version_max,
            )
        ]

    def _note(self, error: ClientError) -> None:
        if self.operation is not None:
            self.operation.failed(error)

    def _refused(
        self, error: BrokerError, now_ms: int, api: str, key: tuple[int, str] | None = None
    ) -> None:
        """Act upon an error of a coordinator."""
        consequence = of_coordinator(error, api, is_commit=self._is_commit)
        if consequence in (Consequence.LOOK_UP, Consequence.RETRY):
            if consequence == Consequence.LOOK_UP and key is not None:
                self._routes.forget_coordinator(*key)
            self._retry_at_ms = now_ms + self._backoff.failed()
            self._note(error)
            return
        shown = explained(error, self.transactional_id)
        if consequence == Consequence.ABORTABLE and api != "InitProducerId":
            self._abort(shown)
        elif consequence == Consequence.ABORTABLE:  # there is nothing to abort: it can be repeated
            self.state = TransactionState.UNINITIALIZED
            self._finish(shown)
        else:
            self._fail(shown)

    @property
    def _is_initializing(self) -> bool:
        return self.state == TransactionState.INITIALIZING

    # -- InitProducerId -------------------------------------------------------------------------

    def _init_ask(self) -> list[Ask]:
        identity = self.identity if self.identity is not None else _NO_IDENTITY
        request = requests.init(self.transactional_id, self._transaction_timeout_ms, identity)
        return self._ask(request, InitProducerIdResponse, self._initialized)

    def _renew(self) -> None:
        """Increment the epoch, as a part of the end."""
        self._must_bump = False
        self.state = TransactionState.INITIALIZING

    def _initialized(self, response: InitProducerIdResponse) -> None:
        requests.check_init(response, self.transactional_id)
        self.identity = ProducerIdentity(response.producer_id, response.producer_epoch)
        self._become_ready()

    def _become_ready(self) -> None:
        self.is_version_2 = self._routes.feature(FEATURE) >= 2
        self.state = TransactionState.READY
        self.error = None
        self.must_drop_batches = False
        self._finish()

    # -- the transaction ------------------------------------------------------------------------

    def _partitions_ask(self) -> list[Ask]:
        assert self.identity is not None
        partitions = frozenset(self._pending)
        request = requests.add_partitions(self.transactional_id, self.identity, partitions)

        def read(response: AddPartitionsToTxnResponse) -> None:
            requests.check_partitions(response)
            self._added |= partitions
            self._pending -= partitions

        return self._ask(
            request, AddPartitionsToTxnResponse, read, requests.ADD_PARTITIONS_VERSION_MAX
        )

    def _offsets_ask(self, group: GroupMetadata) -> list[Ask]:
        assert self.identity is not None
        if not self.is_version_2 and not self._group_is_added:
            addition = requests.add_group(self.transactional_id, self.identity, group.group_id)
            return self._ask(
                addition, AddOffsetsToTxnResponse, self._group_added, requests.ADD_GROUP_VERSION_MAX
            )
        request = requests.commit_offsets(
            self.transactional_id, self.identity, group, self._offsets
        )

        def read(response: TxnOffsetCommitResponse) -> None:
            left = requests.check_offsets(response, group.group_id)
            self._offsets = {each: self._offsets[each] for each in left if each in self._offsets}
            if not self._offsets:
                self._drop_offsets()
                self._finish()

        version_max = requests.OFFSETS_VERSION_1_MAX
        if self.is_version_2:
            version_max = requests.OFFSETS_VERSION_MAX
        return self._ask(request, TxnOffsetCommitResponse, read, version_max, group.group_id)

    def _group_added(self, response: AddOffsetsToTxnResponse) -> None:
        requests.check_group(response, self.transactional_id)
        self._group_is_added = True

    def _end_ask(self) -> list[Ask]:
        assert self.identity is not None
        request = requests.end(self.transactional_id, self.identity, is_commit=self._is_commit)

        def read(response: EndTxnResponse) -> None:
            requests.check_end(response, self.transactional_id)
            identity = None
            if response.producer_id >= 0:
                identity = ProducerIdentity(response.producer_id, response.producer_epoch)
            self._ended(identity)

        version_max = NO_VERSION_LIMIT if self.is_version_2 else requests.END_VERSION_1_MAX
        return self._ask(request, EndTxnResponse, read, version_max)

    def _ended(self, identity: ProducerIdentity | None) -> None:
        """Continue with the identity for the next transaction, if there is a new one."""
        self._added.clear()
        self._pending.clear()
        if identity is not None:
            self.identity = identity
        if not self.is_version_2 and self._routes.feature(FEATURE) >= 2:
            self._must_bump = True  # the first transaction of version 2 needs a new epoch
        if self._must_bump:
            self._renew()
        else:
            self._become_ready()

    def dropped(self) -> ClientError:
        """Return the error of a batch that is not sent any more, because of an abort."""
        reason = self.error
        if self.state == TransactionState.FATAL and reason is not None:
            return reason
        if reason is not None:
            return TransactionAbortedError(f"the transaction cannot be committed: {reason}")
        return TransactionAbortedError("the transaction was aborted before the record was sent")


_HINTS = {
    TransactionState.UNINITIALIZED: "call init_transactions first",
    TransactionState.INITIALIZING: "init_transactions has not ended; call it again",
    TransactionState.READY: "no transaction is open; call begin_transaction first",
    TransactionState.IN_TRANSACTION: "a transaction is open",
    TransactionState.ABORTABLE: "the transaction must be aborted; call abort_transaction",
    TransactionState.ENDING: "the end of the transaction has timed out; call the same method again",
    TransactionState.FATAL: "the producer has failed; close it",
}
