"""A broker of the simulation: it performs the effects of the machines on model logs."""

from __future__ import annotations

from collections.abc import Callable

from tests.replica.controller import NO_LEADER, Change
from tests.replica.model_log import ModelLog, Record

from odradek.core.metadata.registrations import BrokerRegistration, PartitionRegistration
from odradek.core.replica.divergence import diverging_epoch
from odradek.core.replica.effects import Append, HighWatermark, ReplicaKey, RestartAt, Truncate
from odradek.core.replica.follower import FetcherSettings, ReplicaFetcher
from odradek.core.replica.leader import PartitionLeader
from odradek.core.session.fetch import FetchedPartition, FetchSessionCache
from odradek.model.errors import ApiError, ErrorCode
from odradek.wire.generated.fetch_request import FetchRequest
from odradek.wire.generated.fetch_response import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)
from odradek.wire.generated.list_offsets_request import ListOffsetsRequest
from odradek.wire.generated.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

TOPIC, TOPIC_ID = "topic", b"topic-id-16bytes"
LAG_TIME_MAX_MS = 200
SETTINGS = FetcherSettings(wait_max_ms=20, backoff_ms=20)
MIN_INSYNC_REPLICAS = 2


class Replica:
    """One partition on one broker."""

    def __init__(self, index: int, log: ModelLog) -> None:
        self.index = index
        self.log = log
        self.registration: PartitionRegistration | None = None
        self.leader: PartitionLeader | None = None
        self.waiting: list[tuple[int, Callable[[bool], None]]] = []
        """Offsets that are to be committed, and the callbacks."""


class Planted:
    """The classes and the checks of brokers. A planted bug changes one of them."""

    leader: type[PartitionLeader] = PartitionLeader
    fetcher: type[ReplicaFetcher] = ReplicaFetcher
    checks_leader_epoch = True
    checks_divergence = True
    acknowledges_at_once = False
    log: type[ModelLog] = ModelLog


class Broker:
    def __init__(self, world, broker_id: int, partitions: int, planted: Planted) -> None:
        self.world = world
        self.id = broker_id
        self.planted = planted
        self.epoch = broker_id
        self.incarnation = 0
        self.is_alive = True
        self.replicas = [Replica(index, planted.log()) for index in range(partitions)]
        self._begin()

    def _begin(self) -> None:
        self.brokers: dict[int, BrokerRegistration] = {}
        # Without a session every request has all partitions, and a late one is not recognized.
        slots = self.world.draw.choice((0, 100))
        self.sessions = FetchSessionCache(slots, lambda: self.world.draw.randrange(1, 2**31))
        self.fetchers: dict[int, ReplicaFetcher] = {}

    # -- life ---------------------------------------------------------------------------------

    def crash(self, loses: bool) -> None:
        self.is_alive = False
        self.incarnation += 1
        for replica in self.replicas:
            replica.log.crash(loses, self.world.draw)
            replica.leader = replica.registration = None
            replica.waiting.clear()
        self._begin()

    def start(self, epoch: int) -> None:
        self.is_alive = True
        self.epoch = epoch

    # -- metadata -----------------------------------------------------------------------------

    def publish(self, changes: list[Change]) -> None:
        for index, registration in changes:
            if index is None:
                self.brokers[registration.id] = registration
        for index, registration in changes:
            if index is not None:
                self._update(self.replicas[index], registration)
        # A leader may have been fenced before, or may have returned.
        for replica in self.replicas:
            self._follow(replica)
        self.run_fetchers()

    def _update(self, replica: Replica, registration: PartitionRegistration) -> None:
        known = replica.registration
        if known is not None and registration.partition_epoch < known.partition_epoch:
            return
        replica.registration = registration
        now_ms, log = self.world.now_ms, replica.log
        if registration.leader != self.id:
            replica.leader = None
            self._settle(replica, -1)
        elif replica.leader is not None:
            if registration.leader_epoch > replica.leader.leader_epoch:
                log.epochs.assign(registration.leader_epoch, log.log_end_offset)
            self._perform(replica, replica.leader.update(now_ms, registration))
        else:
            log.epochs.assign(registration.leader_epoch, log.log_end_offset)
            replica.leader = self.planted.leader(
                now_ms,
                self.id,
                registration,
                self.brokers.get,
                end_offset=log.log_end_offset,
                high_watermark=log.high_watermark,
                lag_time_max_ms=LAG_TIME_MAX_MS,
                min_insync_replicas=MIN_INSYNC_REPLICAS,
            )
            self.world.elected(self, replica)
            self._advance(replica)

    def _follow(self, replica: Replica) -> None:
        registration = replica.registration
        if registration is None:
            return
        key = ReplicaKey(TOPIC_ID, replica.index)
        leader = registration.leader
        for broker_id, fetcher in self.fetchers.items():
            if broker_id != leader:
                fetcher.remove(key)
        if leader in (self.id, NO_LEADER):
            return
        fetcher = self.fetchers.get(leader)
        if fetcher is None:
            fetcher = self.fetchers[leader] = self.planted.fetcher(self.id, SETTINGS)
        self._perform_fetched(
            fetcher, fetcher.add(key, TOPIC, registration.leader_epoch, replica.log)
        )

    # -- leading ------------------------------------------------------------------------------

    def produce(self, index: int, numbers: list[int], told: Callable[[bool], None]) -> None:
        replica = self.replicas[index]
        leader = replica.leader
        if leader is None or leader.is_under_min_isr:
            told(False)
            return
        replica.log.append([(leader.leader_epoch, number) for number in numbers])
        replica.waiting.append((replica.log.log_end_offset, told))
        self._advance(replica)
        if self.planted.acknowledges_at_once:
            self._settle(replica, replica.log.log_end_offset)

    def _advance(self, replica: Replica) -> None:
        end = replica.log.log_end_offset
        self._perform(replica, replica.leader.advance(self.world.now_ms, end, end))

    def _perform(self, replica: Replica, effects) -> None:
        for effect in effects:
            if isinstance(effect, HighWatermark):
                replica.log.set_high_watermark(effect.offset)
                self.world.moved(self, replica)
                self._settle(replica, effect.offset)
            else:
                self.world.alter(self, replica, effect)

    def _settle(self, replica: Replica, offset: int) -> None:
        """Acknowledge committed records; -1: all waiting requests fail."""
        waiting, replica.waiting = replica.waiting, []
        for end, told in waiting:
            if offset < 0 or end <= offset:
                told(offset >= 0)
            else:
                replica.waiting.append((end, told))

    def altered(self, index: int, change, result) -> None:
        replica = self.replicas[index]
        leader = replica.leader
        if leader is None:
            return
        now_ms = self.world.now_ms
        if isinstance(result, PartitionRegistration):
            effects = leader.altered(
                now_ms, change, result.leader_epoch, result.partition_epoch, result.isr
            )
        else:
            effects = leader.rejected(now_ms, change, result)
        self._perform(replica, effects)

    def delete_records(self, index: int) -> None:
        replica = self.replicas[index]
        if replica.leader is not None:
            replica.log.start_at(
                self.world.draw.randint(replica.log.log_start_offset, replica.log.high_watermark)
            )

    def tick(self) -> None:
        for replica in self.replicas:
            if replica.leader is not None:
                self._perform(replica, replica.leader.tick(self.world.now_ms))
            if self.world.draw.random() < 0.1:
                replica.log.flush()
        self.run_fetchers()

    # -- serving ------------------------------------------------------------------------------

    def serve(self, request: FetchRequest, respond: Callable[[FetchResponse], None]) -> None:
        plan = self.sessions.plan(request, self.world.now_ms, uses_topic_ids=True)
        if plan.error:
            respond(FetchResponse(error_code=plan.error))
            return
        follower = request.replica_state
        found = [(each, self._read(each, follower, is_first=True)) for each in plan.partitions]
        if not any(data.records or data.error_code for _, data in found):
            self.world.later(
                self,
                self.world.draw.randint(1, request.max_wait_ms),
                lambda: respond(self._response(plan, follower, None)),
            )
        else:
            respond(self._response(plan, follower, found))

    def _response(self, plan, follower, found) -> FetchResponse:
        if found is None:
            found = [(each, self._read(each, follower, is_first=False)) for each in plan.partitions]
        told = [each for each in found if each[0].has_news(each[1]) or not plan.incremental]
        topic = FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[data for _, data in told])
        session_id = 0 if plan.session is None else plan.session.id
        return FetchResponse(session_id=session_id, responses=[topic] if told else [])

    def _read(self, wanted: FetchedPartition, follower, is_first: bool) -> PartitionData:
        index = wanted.key[1]
        try:
            return self._read_checked(self.replicas[index], wanted, follower, is_first)
        except ApiError as error:
            return PartitionData(
                partition_index=index, error_code=error.code, high_watermark=-1, records=[]
            )

    def _check_leader(self, replica: Replica, leader_epoch: int) -> PartitionLeader:
        leader, registration = replica.leader, replica.registration
        if registration is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
        if self.planted.checks_leader_epoch and leader_epoch != registration.leader_epoch:
            is_old = leader_epoch < registration.leader_epoch
            raise ApiError(
                ErrorCode.FENCED_LEADER_EPOCH if is_old else ErrorCode.UNKNOWN_LEADER_EPOCH
            )
        if leader is None:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return leader

    def _read_checked(
        self, replica: Replica, wanted: FetchedPartition, follower, is_first: bool
    ) -> PartitionData:
        leader = self._check_leader(replica, wanted.current_leader_epoch)
        leader.check_follower(follower.replica_id, follower.replica_epoch)
        log, offset = replica.log, wanted.fetch_offset
        answer = PartitionData(partition_index=replica.index, records=[])
        if wanted.last_fetched_epoch >= 0 and self.planted.checks_divergence:
            diverging = diverging_epoch(log, wanted.last_fetched_epoch, offset)
            if diverging is not None:
                epoch, end = diverging
                answer.diverging_epoch = EpochEndOffset(epoch=epoch, end_offset=end)
                answer.high_watermark = leader.high_watermark
                answer.log_start_offset = log.log_start_offset
                return answer
        if not log.log_start_offset <= offset <= log.log_end_offset:
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
        answer.records = log.between(offset, min(log.log_end_offset, offset + 8))
        if is_first:
            effects = leader.fetched(
                self.world.now_ms,
                follower.replica_id,
                follower.replica_epoch,
                offset,
                wanted.follower_log_start_offset,
            )
            self._perform(replica, effects)
        answer.high_watermark = leader.high_watermark
        answer.log_start_offset = log.log_start_offset
        return answer

    def list_offsets(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        result = ListOffsetsTopicResponse(name=TOPIC)
        for wanted in request.topics[0].partitions:
            answer = ListOffsetsPartitionResponse(partition_index=wanted.partition_index)
            replica = self.replicas[wanted.partition_index]
            try:
                self._check_leader(replica, wanted.current_leader_epoch)
                log = replica.log
                is_latest = wanted.timestamp == -1
                answer.offset = log.log_end_offset if is_latest else log.log_start_offset
            except ApiError as error:
                answer.error_code = error.code
            result.partitions.append(answer)
        return ListOffsetsResponse(topics=[result])

    # -- following ----------------------------------------------------------------------------

    def run_fetchers(self) -> None:
        for leader_id, fetcher in list(self.fetchers.items()):
            request = fetcher.request(self.world.now_ms, self.epoch)
            if request is not None:
                self.world.fetch(self, leader_id, fetcher, request)
            lookup = fetcher.lookup(self.world.now_ms)
            if lookup is not None:
                self.world.look_up(self, leader_id, fetcher, lookup)

    def fetched(self, fetcher: ReplicaFetcher, response: FetchResponse | None) -> None:
        """A response, or None if it is lost."""
        now_ms = self.world.now_ms
        if response is None:
            fetcher.disconnected(now_ms)
        else:
            self._perform_fetched(fetcher, fetcher.responded(now_ms, response))
        self.run_fetchers()

    def looked_up(self, fetcher: ReplicaFetcher, response: ListOffsetsResponse | None) -> None:
        now_ms = self.world.now_ms
        if response is None:
            fetcher.lookup_failed(now_ms)
        else:
            self._perform_fetched(fetcher, fetcher.looked_up(now_ms, response))
        self.run_fetchers()

    def _perform_fetched(self, fetcher: ReplicaFetcher, effects) -> None:
        for effect in effects:
            replica = self.replicas[effect.key.partition]
            log = replica.log
            assert replica.registration.leader_epoch == effect.leader_epoch
            match effect:
                case Append():
                    records: list[Record] = effect.records or []
                    if any(epoch > effect.leader_epoch for epoch, _ in records):
                        fetcher.failed(
                            self.world.now_ms, effect.key, effect.leader_epoch, is_final=False
                        )
                        continue
                    log.append(records)
                    log.set_high_watermark(effect.high_watermark)
                    log.start_at(effect.log_start_offset)
                case Truncate():
                    log.truncate_to(effect.offset)
                case RestartAt():
                    log.restart_at(effect.offset)
            fetcher.appended(effect.key, effect.leader_epoch)
