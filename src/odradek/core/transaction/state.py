"""The state that the parts of one transaction machine share."""

from __future__ import annotations

from collections.abc import Callable

from odradek.config.broker_config import BrokerConfig
from odradek.core.coordinator.clock import Clock
from odradek.core.coordinator.journal import Journal
from odradek.core.coordinator.machine import Effects
from odradek.core.coordinator.record import CoordinatorRecord
from odradek.core.coordinator.timers import TimerTable
from odradek.core.metadata.image import EMPTY_IMAGE, MetadataImage
from odradek.core.metadata.versions import TRANSACTION_VERSION
from odradek.core.transaction.phases import Phase
from odradek.core.transaction.records import record_of
from odradek.core.transaction.transaction import NO_EPOCH, Transaction
from odradek.model.errors import ApiError, ErrorCode

Note = Callable[[str, str], None]
"""(transactional id, what happened and why): for the node's log."""


def no_note(transactional_id: str, text: str) -> None:
    """The default: log nothing."""


class TransactionState:
    """The transactional ids of one partition, and the means of its machine."""

    __slots__ = (
        "clock", "config", "effects", "image", "journal", "last_epochs", "new_producer_id", "note",
        "ongoing", "timers", "transactions",
    )  # fmt: skip

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        new_producer_id: Callable[[], int],
        note: Note = no_note,
    ) -> None:
        """`new_producer_id` raises COORDINATOR_LOAD_IN_PROGRESS while none is available."""
        self.config = config
        self.clock = clock
        self.new_producer_id = new_producer_id
        self.note = note
        self.journal = Journal()
        self.timers = TimerTable(clock.monotonic_ms)
        self.effects = Effects()
        self.image: MetadataImage = EMPTY_IMAGE
        self.transactions: dict[str, Transaction] = {}
        """By transactional id. Changed by replayed records only, through the journal."""
        self.ongoing: dict[str, None] = {}
        """The ids whose transaction is open, likewise."""
        self.last_epochs: dict[str, int] = {}
        """By transactional id: the epoch in the request that returned the current epoch. A producer
        that sends it again has missed the response. Not in the log, so a new coordinator does not
        have it (as in Apache Kafka). Changed by decisions, through the journal."""

    def update_config(self, config: BrokerConfig) -> None:
        """Use these settings from now on."""
        self.config = config

    def update_image(self, image: MetadataImage) -> None:
        """The newest metadata."""
        self.image = image

    def put(self, transactional_id: str, transaction: Transaction) -> None:
        """Apply a record."""
        self.journal.put(self.transactions, transactional_id, transaction)
        if transaction.phase is Phase.ONGOING:
            if transactional_id not in self.ongoing:
                self.journal.put(self.ongoing, transactional_id, None)
        else:
            self.journal.remove(self.ongoing, transactional_id)

    def forget(self, transactional_id: str) -> None:
        """The id has expired."""
        self.journal.remove(self.transactions, transactional_id)
        self.journal.remove(self.ongoing, transactional_id)
        self.journal.remove(self.last_epochs, transactional_id)

    def find(self, transactional_id: str) -> Transaction:
        """The transaction.

        Raises:
            ApiError: INVALID_REQUEST: the id is empty; INVALID_PRODUCER_ID_MAPPING: the id is
                unknown.
        """
        if not transactional_id:
            raise ApiError(ErrorCode.INVALID_REQUEST)
        transaction = self.transactions.get(transactional_id)
        if transaction is None:
            raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        return transaction

    def last_epoch(self, transactional_id: str) -> int:
        """See `last_epochs`; -1: there is none."""
        return self.last_epochs.get(transactional_id, NO_EPOCH)

    def remember_epoch(self, transactional_id: str, epoch: int) -> None:
        """Remember the producer's previous epoch; -1: a retry with a previous epoch is not
        possible."""
        if epoch == NO_EPOCH:
            self.journal.remove(self.last_epochs, transactional_id)
        else:
            self.journal.put(self.last_epochs, transactional_id, epoch)

    @property
    def level(self) -> int:
        """The finalized level of transaction.version."""
        return self.image.features.level(TRANSACTION_VERSION)

    def record(self, transactional_id: str, transaction: Transaction) -> CoordinatorRecord:
        """Return the record of a decision."""
        return record_of(transactional_id, transaction, self.level)
