"""A controller without a log: decisions are replayed at once."""

import random

from odradek.config.load import load
from odradek.core.controller.activation import bootstrap_records
from odradek.core.controller.machine import ControllerMachine, Moment, batches
from odradek.core.controller.periodic import Intervals
from odradek.core.metadata.batch_loader import BatchLoader
from odradek.core.metadata.record import decode_record, encode_record
from odradek.wire.generated.broker_heartbeat_request import BrokerHeartbeatRequest
from odradek.wire.generated.broker_registration_request import BrokerRegistrationRequest, Feature
from odradek.wire.generated.feature_level_record import FeatureLevelRecord

FEATURES = {
    "metadata.version": (7, 33),
    "kraft.version": (0, 1),
    "transaction.version": (0, 2),
    "group.version": (0, 1),
    "eligible.leader.replicas.version": (0, 1),
}
TOKEN_CHECK_MS = 3_600_000
EPOCH_MS = 1_700_000_000_000
"""The time since 1970 at which the monotonic time is 0."""


def directory(broker):
    return bytes((7,)) * 15 + bytes((broker,))


class Controller:
    """Processes requests. `image` is the image after all requests. Elections use seeded randomness.

    `now_ms` is the time, and tests advance it. `requester` is the principal of the client.
    `fail_over` makes another controller active.
    """

    def __init__(self, elr=True, level=33, **settings):
        static = {name.replace("_", "."): value for name, value in settings.items()}
        self.config = load(static, {}).config
        self.random = random.Random(5)
        self.now_ms = 1_000_000
        self.voters = 1
        self.requester = ""
        self.epoch = 0
        self.committed = BatchLoader()
        """The state of a standby, with which the next active controller begins."""
        self.fail_over()
        records = [FeatureLevelRecord(name="metadata.version", feature_level=level)]
        if elr:
            records.append(
                FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=1)
            )
        self.replay(bootstrap_records(records, 1, in_transaction=False))

    def fail_over(self):
        """Make another controller active, with the records so far."""
        self.epoch += 1
        secret = self.config.delegation_token_secret_key
        self.machine = ControllerMachine(
            self.committed.copy(),
            Intervals(9_000, 300_000, 300_000, 500, TOKEN_CHECK_MS if secret else None),
            self.now_ms,
            cluster_id="cluster",
            random_bytes=self.random.randbytes,
            supported_features=FEATURES,
            token_secret=secret,
        )

    @property
    def image(self):
        return self.machine.image

    @property
    def moment(self):
        configs = self.image.configs
        return Moment(
            now_ms=self.now_ms,
            wall_ms=EPOCH_MS + self.now_ms,
            requester=self.requester,
            next_offset=self.next_offset,
            config=self.config.with_dynamic(configs.of(4, ""), configs.of(4, "1")),
            kraft_version=1,
            voter_count=self.voters,
        )

    @property
    def next_offset(self):
        return self.image.offset + 1

    @property
    def state(self):
        return self.machine.state(self.moment)

    def replay(self, records):
        """Encode, decode and replay records, as if they were read from the log."""
        if records:
            level = self.image.features.metadata_version or 33
            values = [decode_record(encode_record(record, level)) for record in records]
            base_offset = self.next_offset
            change = self.machine.replay(values, base_offset, self.epoch, self.now_ms)
            if change is not None:
                self.delta, _ = change
            self.committed.load(values, base_offset, self.epoch)
            self.committed.flush()
        return records

    def ask(self, request, version=None):
        """Replay and return the decision about a request."""
        if version is None:
            version = request.VERSION_MAX
        return self.make(self.machine.decide(self.moment, request, version))

    def make(self, decision):
        """Append the records of a decision, as the shell does."""
        for batch in batches(decision):
            self.replay(batch)
        self.machine.decided(decision, self.next_offset)
        return decision

    def pass_time(self, milliseconds):
        """Advance the time, and do the periodic work as its deadlines pass; return its records."""
        end_ms = self.now_ms + milliseconds
        records = []
        while True:
            deadline_ms = self.machine.deadline_ms(self.moment)
            if deadline_ms is None or deadline_ms > end_ms:
                self.now_ms = end_ms
                return records
            self.now_ms = max(self.now_ms, deadline_ms)
            decision = self.machine.due(self.moment)
            if decision is not None:
                records += self.make(decision).records
            else:
                later_ms = self.machine.deadline_ms(self.moment)
                assert later_ms is None or later_ms > self.now_ms, "due work is not done"

    def register(self, broker=1, rack=None, incarnation=None, previous_epoch=-1, directories=None):
        """Register a broker whose previous incarnation is known to have ended."""
        self.machine.end_session(broker)
        request = BrokerRegistrationRequest(
            broker_id=broker,
            cluster_id="cluster",
            incarnation_id=incarnation or self.random.randbytes(16),
            features=[
                Feature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in FEATURES.items()
            ],
            rack=rack,
            log_dirs=directories or [directory(broker)],
            previous_broker_epoch=previous_epoch,
        )
        return self.ask(request).response.broker_epoch

    def heartbeat(
        self, broker=1, fence=False, shut_down=False, offset=None, offline=(), cordoned=None
    ):
        """Send a heartbeat of a broker that has read the metadata up to `offset`, or to the end."""
        request = BrokerHeartbeatRequest(
            broker_id=broker,
            broker_epoch=self.image.cluster.brokers[broker].epoch,
            current_metadata_offset=self.image.offset if offset is None else offset,
            want_fence=fence,
            want_shut_down=shut_down,
            offline_log_dirs=list(offline),
            cordoned_log_dirs=cordoned,
        )
        return self.ask(request)

    def join(self, *brokers, racks=None):
        """Register and unfence a broker."""
        for broker in brokers:
            self.register(broker, rack=(racks or {}).get(broker))
            self.heartbeat(broker)
        return self
