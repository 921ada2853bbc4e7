"""Random histories of brokers and controllers, and checks after each batch of records.

The seed determines a history. Brokers register, send heartbeats, stop sending heartbeats, stop,
lose directories, and alter their partitions. Clients create, move and delete topics. The controller
fails over, and the next controller has lost a part of the records that were not committed. The
model knows the correct response to each request, independently of the controller's code.
"""

import random
from collections import Counter

from odradek.core.controller.brokers import FENCE
from odradek.core.controller.elections import UNCLEAN
from odradek.core.controller.partition_index import PartitionIndex
from odradek.core.controller.state import has_online_directory
from odradek.core.metadata.batch_loader import BatchLoader
from odradek.core.metadata.registrations import NO_LEADER, RECOVERED, RECOVERING
from odradek.model.errors import ApiError, ErrorCode
from odradek.wire.generated import assign_replicas_to_dirs_request as assign_wire
from odradek.wire.generated.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.wire.generated.alter_partition_request import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    TopicData,
)
from odradek.wire.generated.broker_heartbeat_request import BrokerHeartbeatRequest
from odradek.wire.generated.broker_registration_change_record import BrokerRegistrationChangeRecord
from odradek.wire.generated.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from odradek.wire.generated.elect_leaders_request import ElectLeadersRequest
from odradek.wire.generated.register_broker_record import RegisterBrokerRecord
from odradek.wire.generated.unregister_broker_request import UnregisterBrokerRequest

from .harness import Controller, directory
from .test_broker_decisions import registration
from .test_topic_decisions import create, topic

BROKERS = (1, 2, 3, 4)
SESSION_MS = 9_000
GRACE_MS = SESSION_MS // 8


class Violation(AssertionError):
    """The controller has broken a rule."""


def require(holds, rule):
    if not holds:
        raise Violation(rule)


def spare(broker):
    """The second log directory of a broker."""
    return directory(100 + broker)


class Watched(Controller):
    """A controller. Each of its batches is checked. Only some of its records are committed."""

    def __init__(self, **arguments):
        self.batches = []
        """The log: first offset, epoch and records of each batch."""
        self.committed_batches = 0
        self.registered_at = {}
        self.contacts = {}
        """The time of the last heartbeat of each broker id and epoch."""
        self.active_since_ms = 0
        self.unclean_is_requested = False
        self.unread = set()
        """Brokers whose heartbeats this controller has not processed yet."""
        self.said_in_sync = ()
        """The replicas that are in sync, as their leader has reported."""
        super().__init__(**arguments)

    def replay(self, records):
        before = self.image
        if records:
            self.batches.append((self.next_offset, self.epoch, list(records)))
            for offset, record in enumerate(records, self.next_offset):
                if isinstance(record, RegisterBrokerRecord):
                    self.registered_at[record.broker_id] = offset
        super().replay(records)
        check_image(before, self)
        return records

    def make(self, decision):
        is_periodic = isinstance(decision.response, str)
        for record in decision.records if is_periodic else ():
            if isinstance(record, BrokerRegistrationChangeRecord) and record.fenced == FENCE:
                contact_ms = self.contact_ms(record.broker_id, record.broker_epoch)
                require(record.broker_id not in self.unread, "unread heartbeats are waited for")
                require(
                    self.now_ms - contact_ms > SESSION_MS, f"{record.broker_id} is fenced too early"
                )
        return super().make(decision)

    def contact_ms(self, broker, epoch):
        return max(self.contacts.get((broker, epoch), self.active_since_ms), self.active_since_ms)

    def lose_leadership(self, kept):
        """Make another controller active, which has the first `kept` batches of the log."""
        del self.batches[kept:]
        self.committed_batches = min(self.committed_batches, kept)
        self.committed = BatchLoader()
        for base_offset, epoch, records in self.batches:
            self.committed.load(records, base_offset, epoch)
            self.committed.flush()
        self.active_since_ms = self.now_ms
        self.fail_over()
        end = self.image.offset
        self.registered_at = dict.fromkeys(self.image.cluster.brokers, end)
        require(self.image == self.committed.image, "the state is that of the committed records")
        check_image(self.image, self)


def check_image(before, controller):
    image = controller.image
    index = controller.state.index.contents()
    require(index == PartitionIndex(image.topics).contents(), "the index equals a full scan")
    for broker in image.cluster.brokers.values():
        old = before.cluster.brokers.get(broker.id)
        require(old is None or broker.epoch >= old.epoch, "broker epochs do not fall")
    epochs = [each.epoch for each in image.cluster.brokers.values()]
    require(len(epochs) == len(set(epochs)), "broker epochs are unique")
    for name, each in image.topics.by_name.items():
        was = before.topics.by_name.get(name)
        for number, state in each.partitions.items():
            check_partition(controller, state)
            old = was.partitions.get(number) if was is not None and was.id == each.id else None
            if old is not None and old != state:
                check_change(controller, name, old, state)


def check_partition(controller, state):
    elr_enabled = controller.state.elr_enabled
    require(len(set(state.isr)) == len(state.isr), "the ISR has each replica once")
    require(set(state.isr) <= set(state.replicas), "the ISR is part of the replicas")
    require(set(state.elr) <= set(state.replicas), "the ELR is part of the replicas")
    require(not set(state.isr) & set(state.elr), "ISR and ELR are disjoint")
    require(state.isr or elr_enabled, "without ELR the ISR is never empty")
    require(state.leader == NO_LEADER or state.leader in state.isr, "the leader is in the ISR")
    if state.leader_recovery_state == RECOVERING and state.leader != NO_LEADER:
        require(len(state.isr) == 1, "a leader that recovers is alone in the ISR")
    if len(state.replicas) == 1:
        return
    brokers = controller.image.cluster.brokers
    if state.leader != NO_LEADER:
        leader = brokers.get(state.leader)
        require(leader is not None and not leader.fenced, "a fenced broker leads nothing")
        for replica in state.isr:
            broker = brokers.get(replica)
            require(broker is not None and not broker.fenced, "a fenced broker is in no ISR")


def check_change(controller, name, old, state):
    require(state.partition_epoch > old.partition_epoch, "each change has its partition epoch")
    require(state.leader_epoch >= old.leader_epoch, "leader epochs do not fall")
    if not set(old.replicas) <= set(state.replicas):
        require(state.leader_epoch > old.leader_epoch, "a removed replica is fenced by the epoch")
    if state.leader == old.leader:
        return
    require(state.leader_epoch > old.leader_epoch, "a new leader has a new epoch")
    if state.leader == NO_LEADER:
        return
    if state.leader not in (*old.isr, *old.elr, *controller.said_in_sync):
        # Apache Kafka does not record it if a reassignment is cancelled whose new replicas are the ISR.
        is_cancelled = set(old.isr) <= set(old.adding_replicas) and not state.adding_replicas
        recovers = state.leader_recovery_state == RECOVERING
        require(recovers or is_cancelled, "an unclean election is recorded")
        may_be_unclean = (
            controller.unclean_is_requested or controller.state.unclean_election_enabled(name)
        )
        require(may_be_unclean or old.last_known_elr, "an unclean election is allowed")
    broker = controller.image.cluster.brokers[state.leader]
    place = dict(zip(state.replicas, state.directories, strict=True))[state.leader]
    require(has_online_directory(broker, place), "the directory of a new leader is online")


class History:
    """One random history. `run` raises `Violation` if a rule is broken."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.controller = Watched(
            elr=self.random.random() < 0.6,
            level=self.random.choice((30, 30, 29)),
            min_insync_replicas=str(self.random.choice((1, 2))),
        )
        self.counts = Counter()
        self.silent = set()
        self.steps = {
            self.beat: 30,
            self.pass_time: 14,
            self.alter: 24,
            self.silence: 4,
            self.register: 5,
            self.shut_down: 6,
            self.commit: 8,
            self.fail_over: 3,
            self.create: 3,
            self.delete: 1,
            self.move: 6,
            self.elect: 3,
            self.unregister: 1,
            self.assign: 6,
            self.lose_directory: 3,
            self.stall: 2,
        }
        for broker in BROKERS:
            self._register(broker, clean=False, is_known_dead=True)
            self._beat(broker)
        self.create()
        self.commit()

    def run(self, length):
        chosen = self.random.choices(list(self.steps), weights=list(self.steps.values()), k=length)
        for step in chosen:
            step()
            self.counts[step.__name__] += 1
        return self.counts

    @property
    def log(self):
        return self.controller.batches

    @property
    def brokers(self):
        return self.controller.image.cluster.brokers

    def some_broker(self):
        return self.random.choice(BROKERS)

    # -- brokers ------------------------------------------------------------------------------

    def beat(self):
        """Send a heartbeat of each broker that has not stopped sending heartbeats."""
        for broker in BROKERS:
            if broker not in self.silent:
                self._beat(broker, want_fence=self.random.random() < 0.03)

    def _beat(self, broker, shut_down=False, want_fence=False, offline=()):
        known = self.brokers.get(broker)
        if known is None:
            return
        controller = self.controller
        end = controller.image.offset
        offset = end if self.random.random() < 0.8 else self.random.randint(-1, end)
        epoch = known.epoch if self.random.random() < 0.95 else known.epoch - 1
        request = BrokerHeartbeatRequest(
            broker_id=broker,
            broker_epoch=epoch,
            current_metadata_offset=offset,
            want_fence=want_fence,
            want_shut_down=shut_down,
            offline_log_dirs=list(offline),
        )
        is_caught_up = offset >= controller.registered_at[broker]
        leads_before = self._leads(broker)
        try:
            answer = controller.ask(request).response
        except ApiError as error:
            require(error.code is ErrorCode.STALE_BROKER_EPOCH, f"unexpected {error}")
            require(epoch != known.epoch, "the epoch was right")
            return
        require(epoch == known.epoch, "a stale broker epoch is refused")
        controller.contacts[broker, epoch] = controller.now_ms
        after = self.brokers[broker]
        require(after.fenced == answer.is_fenced, "the answer says whether the broker is fenced")
        require(answer.is_caught_up == is_caught_up, "the answer says whether it is caught up")
        if known.fenced and not after.fenced:
            require(is_caught_up, "a broker is unfenced when it has read its registration")
            self.counts["unfenced"] += 1
        if answer.should_shut_down:
            require(shut_down or known.in_controlled_shutdown, "nobody wanted to shut down")
            require(after.fenced, "a broker that may stop is fenced")
            require(not leads_before or known.fenced or want_fence, "its leaders have moved")
            require(not self._leads(broker), "a broker that may stop leads nothing")
            self.counts["stopped"] += 1
            controller.contacts.pop((broker, epoch))

    def _leads(self, broker):
        return any(
            state.leader == broker and len(state.replicas) > 1
            for each in self.controller.image.topics.by_name.values()
            for state in each.partitions.values()
        )

    def silence(self):
        broker = self.some_broker()
        self.silent ^= {broker}

    def shut_down(self):
        broker = self.some_broker()
        for _ in range(self.random.randint(1, 3)):
            self._beat(broker, shut_down=True, want_fence=self.random.random() < 0.2)
            self.beat()

    def assign(self):
        """Report the directory of a broker's replica."""
        found = self.some_partition()
        if found is None:
            return
        each, number = found
        broker = self.brokers.get(self.random.choice(each.partitions[number].replicas))
        if broker is None:
            return
        place = self.random.choice((directory(broker.id), spare(broker.id)))
        partition = assign_wire.PartitionData(partition_index=number)
        one = assign_wire.TopicData(topic_id=each.id, partitions=[partition])
        request = assign_wire.AssignReplicasToDirsRequest(
            broker_id=broker.id,
            broker_epoch=broker.epoch,
            directories=[assign_wire.DirectoryData(id=place, topics=[one])],
        )
        answer = self.controller.ask(request).response.directories[0].topics[0].partitions[0]
        require(answer.error_code == ErrorCode.NONE, "a broker may say where its replica is")
        state = self.controller.image.topics.by_id[each.id].partitions[number]
        if broker.id not in state.replicas:
            require(not state.is_reassigning, "the change has completed a reassignment")
            return
        require(state.directory(broker.id) == place, "the directory is recorded")
        if not has_online_directory(broker, place):
            require(state.leader != broker.id, "a replica in a lost directory leads nothing")

    def lose_directory(self):
        broker = self.some_broker()
        self._beat(broker, offline=[self.random.choice((directory(broker), spare(broker)))])

    def register(self):
        broker = self.some_broker()
        is_clean = self.random.random() < 0.5
        self._register(broker, is_clean, is_known_dead=self.random.random() < 0.3)
        self.silent.discard(broker)

    def _register(self, broker, clean, is_known_dead):
        controller = self.controller
        before = self.brokers.get(broker)
        if is_known_dead:
            controller.machine.end_session(broker)
            if before is not None:
                controller.contacts.pop((broker, before.epoch), None)
        previous = before.epoch if before is not None and clean else -1
        request = registration(
            broker_id=broker,
            incarnation_id=self.random.randbytes(16),
            log_dirs=[directory(broker), spare(broker)],
            previous_broker_epoch=previous,
        )
        lives = before is not None and not is_known_dead and self._has_session(before)
        try:
            answer = controller.ask(request).response
        except ApiError as error:
            require(error.code is ErrorCode.DUPLICATE_BROKER_REGISTRATION, f"unexpected {error}")
            require(lives, "the previous incarnation is gone")
            self.counts["duplicates"] += 1
            return
        require(not lives or before.in_controlled_shutdown, "the previous incarnation lives")
        after = self.brokers[broker]
        require(answer.broker_epoch == after.epoch, "the answer has the broker epoch")
        require(after.fenced, "a new incarnation is fenced")
        if not clean and controller.state.elr_enabled:
            for each in controller.image.topics.by_name.values():
                for state in each.partitions.values():
                    if len(state.replicas) > 1:
                        require(broker not in (*state.isr, *state.elr), "it may lack records")

    def _has_session(self, broker):
        controller = self.controller
        contact_ms = controller.contacts.get((broker.id, broker.epoch))
        if contact_ms is None or contact_ms < controller.active_since_ms:
            # Only a heartbeat begins the session of a fenced broker.
            if broker.fenced:
                return False
            contact_ms = controller.active_since_ms
        elif broker.fenced and not self._beats_since_fenced(broker):
            return False
        return controller.now_ms - contact_ms <= SESSION_MS

    def _beats_since_fenced(self, broker):
        sessions = self.controller.state.heartbeats
        return sessions.has_valid_session(broker.id, broker.epoch, self.controller.now_ms)

    def unregister(self):
        broker = self.some_broker()
        if broker in self.brokers and len(self.brokers) > 2:
            self.controller.ask(UnregisterBrokerRequest(broker_id=broker))
            require(broker not in self.brokers, "it is gone")

    # -- time and controllers -----------------------------------------------------------------

    def pass_time(self):
        self.controller.pass_time(self.random.choice((1, 500, 3_000, 5_000, 20_000)))
        self._check_sessions(SESSION_MS)

    def stall(self):
        """Stop the controller's process for a while. After that its timer runs first."""
        controller = self.controller
        controller.now_ms += 20_000
        controller.unread = set(BROKERS) - self.silent
        decision = controller.machine.due(controller.moment)
        if decision is not None:
            controller.make(decision)
        controller.unread = set()
        self.beat()
        controller.pass_time(GRACE_MS)
        self._check_sessions(SESSION_MS + GRACE_MS)

    def _check_sessions(self, limit_ms):
        for broker in self.brokers.values():
            silence_ms = self.controller.now_ms - self.controller.contact_ms(
                broker.id, broker.epoch
            )
            require(broker.fenced or silence_ms <= limit_ms, f"silent {broker.id} is not fenced")

    def commit(self):
        self.controller.committed_batches = len(self.controller.batches)

    def fail_over(self):
        controller = self.controller
        kept = self.random.randint(controller.committed_batches, len(controller.batches))
        self.counts["lost"] += len(controller.batches) - kept
        controller.lose_leadership(kept)
        self.commit()

    # -- partitions -----------------------------------------------------------------------------

    def some_partition(self):
        topics = list(self.controller.image.topics.by_name.values())
        if not topics:
            return None
        each = self.random.choice(topics)
        return each, self.random.choice(list(each.partitions))

    def create(self):
        unclean = self.random.random() < 0.3
        settings = {"unclean.leader.election.enable": "true"} if unclean else {}
        name = f"t{self.random.randrange(6)}"
        factor = self.random.randint(1, 3)
        create(self.controller, topic(name, self.random.randint(1, 5), factor, settings))

    def delete(self):
        found = self.some_partition()
        if found is not None:
            state = DeleteTopicState(name=found[0].name)
            self.controller.ask(DeleteTopicsRequest(topics=[state]))

    def move(self):
        found = self.some_partition()
        if found is None:
            return
        each, number = found
        target = self.random.sample(BROKERS, self.random.randint(1, 3))
        wanted = ReassignablePartition(
            partition_index=number, replicas=None if self.random.random() < 0.2 else target
        )
        one = ReassignableTopic(name=each.name, partitions=[wanted])
        self.controller.ask(AlterPartitionReassignmentsRequest(topics=[one]))

    def elect(self):
        kind = self.random.randint(0, 1)
        self.controller.unclean_is_requested = kind == UNCLEAN
        self.controller.ask(ElectLeadersRequest(election_type=kind, topic_partitions=None))
        self.controller.unclean_is_requested = False

    def alter(self):
        """Change the ISR of a leader. Some requests are out of date or wrong."""
        found = self.some_partition()
        if found is None:
            return
        each, number = found
        before = each.partitions[number]
        sender = self.brokers.get(before.leader)
        if sender is None:
            return
        wants = self.random.sample(before.replicas, self.random.randint(1, len(before.replicas)))
        if before.leader not in wants and self.random.random() < 0.9:
            wants.append(before.leader)
        if self.random.random() < 0.05:
            wants.append(99)
        leader_epoch = before.leader_epoch + self._rarely()
        partition_epoch = before.partition_epoch + self._rarely()
        isr = []
        for replica in wants:
            known = self.brokers.get(replica)
            epoch = -1 if known is None else known.epoch + self._rarely()
            isr.append(BrokerState(broker_id=replica, broker_epoch=epoch))
        partition = PartitionData(
            partition_index=number,
            leader_epoch=leader_epoch,
            new_isr_with_epochs=isr,
            leader_recovery_state=RECOVERED,
            partition_epoch=partition_epoch,
        )
        may = (
            (leader_epoch, partition_epoch) == (before.leader_epoch, before.partition_epoch)
            and before.leader in wants
            and set(wants) <= set(before.replicas)
            and all(self._is_eligible(*self._pair(replica)) for replica in isr)
        )
        request = AlterPartitionRequest(
            broker_id=sender.id,
            broker_epoch=sender.epoch,
            topics=[TopicData(topic_id=each.id, partitions=[partition])],
        )
        self.controller.said_in_sync = wants if may else ()
        answer = self.controller.ask(request).response.topics[0].partitions[0]
        self.controller.said_in_sync = ()
        state = self.controller.image.topics.by_id[each.id].partitions[number]
        if not may:
            require(answer.error_code != ErrorCode.NONE, "a wrong change is refused")
            require(state == before, "a refused change changes nothing")
            self.counts["alter refused"] += 1
        elif answer.error_code == ErrorCode.NEW_LEADER_ELECTED:
            require(before.is_reassigning and not state.is_reassigning, "it was completed")
            require(state.leader != sender.id, "another replica leads")
            self.counts["completed, new leader"] += 1
        else:
            require(answer.error_code == ErrorCode.NONE, "a right change is made")
            require(tuple(answer.isr) == state.isr, "the answer has the ISR")
            require(answer.partition_epoch == state.partition_epoch, "and the partition epoch")
            require(state.leader == sender.id, "and the leader stays")
            require(state.leader_recovery_state == RECOVERED, "the leader has recovered")
            if before.is_reassigning and not state.is_reassigning:
                require(set(before.adding_replicas) <= set(state.isr), "all added are in sync")
                self.counts["completed"] += 1
            else:
                require(set(state.isr) == set(wants), "the ISR is what the leader wants")
            self.counts["alter done"] += 1

    def _rarely(self):
        return self.random.choice((-1, 1)) if self.random.random() < 0.05 else 0

    def _pair(self, wanted):
        return wanted.broker_id, wanted.broker_epoch

    def _is_eligible(self, replica, epoch):
        broker = self.brokers.get(replica)
        is_active = broker is not None and not broker.fenced and not broker.in_controlled_shutdown
        return is_active and epoch in (-1, broker.epoch)
