"""The state machine of one partition of `__transaction_state`."""

from __future__ import annotations

from collections import Counter

from odradek.config.broker_config import BrokerConfig
from odradek.core.coordinator.machine import QuickReplay
from odradek.core.coordinator.record import CoordinatorRecord
from odradek.core.metadata.delta import MetadataDelta
from odradek.core.metadata.image import MetadataImage
from odradek.core.transaction.completion import Completion
from odradek.core.transaction.ending import Ending
from odradek.core.transaction.initialization import Initialization
from odradek.core.transaction.listing import Listing
from odradek.core.transaction.partitions import Membership
from odradek.core.transaction.periodic_tasks import PeriodicTasks
from odradek.core.transaction.records import MESSAGES, read
from odradek.core.transaction.state import TransactionState
from odradek.wire.generated.transaction_log_key import TransactionLogKey
from odradek.wire.generated.transaction_log_value import TransactionLogValue


class TransactionMachine:
    """Implements `CoordinatorMachine`. The operations are methods of its parts; see the package."""

    def __init__(self, state: TransactionState) -> None:
        self.state = state
        self.journal = state.journal
        self.timers = state.timers
        self.effects = state.effects
        self.messages = MESSAGES
        self.quick_replay: QuickReplay | None = None
        self.completion = Completion(state)
        self.ending = Ending(state, self.completion.on_prepared)
        self.initialization = Initialization(state, self.ending)
        self.membership = Membership(state)
        self.listing = Listing(state, self.completion)
        self._periodic_tasks = PeriodicTasks(state, self.ending)

    def replay(
        self, offset: int, producer_id: int, producer_epoch: int, record: CoordinatorRecord
    ) -> None:
        """See `CoordinatorMachine`."""
        key, value = record.key, record.value
        assert isinstance(key, TransactionLogKey)
        if value is None:
            self.state.forget(key.transactional_id)
        else:
            assert isinstance(value, TransactionLogValue)
            self.state.put(key.transactional_id, read(value))

    def replay_end_of_transaction(
        self, producer_id: int, producer_epoch: int, committed: bool
    ) -> None:
        """See `CoordinatorMachine`. Records of this log are never part of a transaction."""

    def on_loaded(self, image: MetadataImage) -> None:
        """See `CoordinatorMachine`. Continues with the markers of transactions that are ending."""
        self.state.update_image(image)
        self.completion.resume_all()
        self._periodic_tasks.schedule()

    def on_unloaded(self) -> None:
        """See `CoordinatorMachine`.

        There are no waiting requests, because each operation returns its response with its records.
        """
        self.completion.close()

    def update_config(self, config: BrokerConfig) -> None:
        """See `CoordinatorMachine`."""
        self.state.update_config(config)

    def on_metadata(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """See `CoordinatorMachine`. The image has the leaders to which markers are sent."""
        self.state.update_image(image)

    def count_by_phase(self) -> Counter[str]:
        """Number of transactional ids by phase."""
        return Counter(each.phase.label for each in self.state.transactions.values())
