"""The state that all parts of a transaction machine share."""

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
"""Called with a transactional id and a message for the operator's log."""


def no_note(transactional_id: str, text: str) -> None:
    """Ignore the message."""


class TransactionState:
    """The transactional ids of one partition, and the dependencies of the state machine."""

    __slots__ = (
        "clock",
        "config",
        "effects",
        "image",
        "journal",
        "last_epochs",
        "new_producer_id",
        "note",
        "ongoing",
        "timers",
        "transactions",
    )

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        new_producer_id: Callable[[], int],
        note: Note = no_note,
    ) -> None:
        """Create the state without transactional ids.

        `new_producer_id` returns an unused producer id. It raises COORDINATOR_LOAD_IN_PROGRESS if
        no producer id is available yet.
        """
        self.config = config
        self.clock = clock
        self.new_producer_id = new_producer_id
        self.note = note
        self.journal = Journal()
        self.timers = TimerTable(clock.monotonic_ms)
        self.effects = Effects()
        self.image: MetadataImage = EMPTY_IMAGE
        self.transactions: dict[str, Transaction] = {}
        """By transactional id. Only the replay of records changes it, through the journal."""
        self.ongoing: dict[str, None] = {}
        """The ids with an open transaction. Only the replay of records changes them."""
        self.last_epochs: dict[str, int] = {}
        """By transactional id: the epoch before the current epoch. The producer sent this epoch in
        a request, and the response had the current epoch. If the producer sends the earlier epoch
        again, it has missed the response. The log does not contain these epochs, so a new
        coordinator does not have them (as in Apache Kafka). Operations change them through the
        journal."""

    def update_config(self, config: BrokerConfig) -> None:
        """Apply changed settings."""
        self.config = config

    def update_image(self, image: MetadataImage) -> None:
        """Set the newest metadata image."""
        self.image = image

    def put(self, transactional_id: str, transaction: Transaction) -> None:
        """Set the state of a transactional id."""
        self.journal.put(self.transactions, transactional_id, transaction)
        if transaction.phase is Phase.ONGOING:
            if transactional_id not in self.ongoing:
                self.journal.put(self.ongoing, transactional_id, None)
        else:
            self.journal.remove(self.ongoing, transactional_id)

    def forget(self, transactional_id: str) -> None:
        """Remove a transactional id."""
        self.journal.remove(self.transactions, transactional_id)
        self.journal.remove(self.ongoing, transactional_id)
        self.journal.remove(self.last_epochs, transactional_id)

    def find(self, transactional_id: str) -> Transaction:
        """Return the state of a transactional id.

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
        """Return the epoch in `last_epochs`; -1 if there is none."""
        return self.last_epochs.get(transactional_id, NO_EPOCH)

    def remember_epoch(self, transactional_id: str, epoch: int) -> None:
        """Set the epoch in `last_epochs`.

        If `epoch` is -1, remove the epoch, so that no retry is possible.
        """
        if epoch == NO_EPOCH:
            self.journal.remove(self.last_epochs, transactional_id)
        else:
            self.journal.put(self.last_epochs, transactional_id, epoch)

    @property
    def level(self) -> int:
        """The finalized level of transaction.version."""
        return self.image.features.level(TRANSACTION_VERSION)

    def record(self, transactional_id: str, transaction: Transaction) -> CoordinatorRecord:
        """Return the record of a new state."""
        return record_of(transactional_id, transaction, self.level)
