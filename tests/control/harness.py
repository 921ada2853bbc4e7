"""A controller without a log: decisions are replayed at once."""

import itertools
import random

from odradek.config.load import load
from odradek.core.controller.activation import bootstrap_records
from odradek.core.controller.decisions import DECISIONS
from odradek.core.controller.state import ControllerState
from odradek.core.metadata.batch_loader import BatchLoader
from odradek.core.metadata.record import decode_record, encode_record
from odradek.wire.generated.broker_heartbeat_request import BrokerHeartbeatRequest
from odradek.wire.generated.broker_registration_request import BrokerRegistrationRequest, Feature
from odradek.wire.generated.feature_level_record import FeatureLevelRecord

FEATURES = {
    "metadata.version": (7, 30),
    "kraft.version": (0, 1),
    "transaction.version": (0, 2),
    "group.version": (0, 1),
    "eligible.leader.replicas.version": (0, 1),
}


def directory(broker):
    return bytes((7,)) * 15 + bytes((broker,))


class Controller:
    """Takes requests; `image` is after all of them. Elections of leaders are random but seeded."""

    def __init__(self, elr=True, level=30, **settings):
        static = {name.replace("_", "."): value for name, value in settings.items()}
        self.config = load(static, {}).config
        self.random = random.Random(5)
        self.loader = BatchLoader()
        self.epochs = itertools.count(1)
        records = [FeatureLevelRecord(name="metadata.version", feature_level=level)]
        if elr:
            records.append(
                FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=1)
            )
        self.replay(bootstrap_records(records, 1, in_transaction=False))

    @property
    def image(self):
        return self.loader.image

    @property
    def state(self):
        configs = self.image.configs
        return ControllerState(
            image=self.image,
            config=self.config.with_dynamic(configs.of(4, ""), configs.of(4, "1")),
            cluster_id="cluster",
            next_offset=self.image.offset + 1,
            random_bytes=self.random.randbytes,
            supported_features=FEATURES,
            kraft_version=1,
        )

    def replay(self, records):
        """Through their bytes, as they would come from the log."""
        if records:
            level = self.image.features.metadata_version or 30
            values = [decode_record(encode_record(record, level)) for record in records]
            self.loader.load(values, self.image.offset + 1, 1)
            change = self.loader.flush()
            if change is not None:
                self.delta, _ = change
        return records

    def ask(self, request, version=None):
        """The decision on a request, which is replayed."""
        if version is None:
            version = request.VERSION_MAX
        decision = DECISIONS[request.API_KEY](self.state, request, version)
        self.replay(decision.records)
        return decision

    def register(self, broker=1, rack=None, incarnation=None, previous_epoch=-1, directories=None):
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

    def heartbeat(self, broker=1, fence=False, shut_down=False):
        request = BrokerHeartbeatRequest(
            broker_id=broker,
            broker_epoch=self.image.cluster.brokers[broker].epoch,
            current_metadata_offset=self.image.offset,
            want_fence=fence,
            want_shut_down=shut_down,
        )
        return self.ask(request)

    def join(self, *brokers, racks=None):
        """Register and unfence."""
        for broker in brokers:
            self.register(broker, rack=(racks or {}).get(broker))
            self.heartbeat(broker)
        return self
