"""A simulation of three brokers, a controller and a network, and the rules that it checks.

The seed determines all events. Messages between brokers are delayed, lost and duplicated. Some
arrive long after the request has timed out, and even after the sender has restarted. Brokers are
killed, and some lose records that were not flushed. Brokers are disconnected from each other and
from the controller, which then fences them. Leaders move. Clients write with acks=all to any broker
that acts as a leader.

The simulation drops a broker's unflushed records only if another live broker is in the ISR of each
partition, because Apache Kafka gives no guarantee otherwise.

The checks after each event, for each partition whose newest leader is alive:

- The live members of the ISR have all records below the leader's high watermark, and these records
  are equal.
- The leader's state of a follower's log is correct, unless the follower has restarted.
- The high watermark of a leader epoch does not decrease.

An acknowledged record is on `min.insync.replicas` brokers. When the ISR changes, each live member
has all acknowledged records. Each new leader also has all acknowledged records. At the end there
are no faults. Then all replicas are in the ISR and equal, and all their records are committed.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter
from collections.abc import Callable
from itertools import count

from tests.replica.broker import MIN_INSYNC_REPLICAS, Broker, Planted, Replica
from tests.replica.controller import Change, Controller
from tests.replica.model_log import Record

BROKER_IDS = (1, 2, 3)
CONTROLLER_ID = 0
PARTITIONS = 2
FAULTY_MS = 3000
QUIET_MS = 2500
TICK_MS = 25
TIMEOUT_MS = 100
SESSION_MS = 150


class Broken(AssertionError):
    """A rule is broken."""


class World:
    def __init__(
        self,
        seed: int,
        planted: Planted | None = None,
        late_share: float | None = None,
        moves: int = 2,
    ) -> None:
        """`late_share` is the part of the messages that are late; by default the seed decides.

        `moves` is the weight of leader changes among the disturbances.
        """
        self.seed = seed
        self.draw = random.Random(seed)
        self.now_ms = 0
        self.is_faulty = True
        self.counts: Counter[str] = Counter()
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._order = count()
        self._numbers = count(1)
        self._cuts: set[frozenset[int]] = set()
        self.acknowledged: list[dict[int, Record]] = [{} for _ in range(PARTITIONS)]
        self._deleted_to = [0] * PARTITIONS
        self._lost_power_ms = dict.fromkeys(BROKER_IDS, -1)
        self._pace_ms = self.draw.choice((4, 12, 60))
        """The longest time between two actions."""
        drawn = self.draw.choice((0.01, 0.05, 0.2))
        self._late_share = drawn if late_share is None else late_share
        self._disturbances = [
            *[self._move] * moves,
            *[self._kill, self._lose, self._cut] * 2,
            self._delete,
        ]
        self._high_watermarks: dict[tuple[int, int], int] = {}
        planted = planted or Planted()
        self.brokers = {each: Broker(self, each, PARTITIONS, planted) for each in BROKER_IDS}
        self._news: dict[int, list[list[Change]]] = {each: [] for each in BROKER_IDS}
        self.controller = Controller(BROKER_IDS, PARTITIONS, self._published)
        for broker in self.brokers.values():
            broker.publish(self.controller.snapshot())
            self.at(TICK_MS, lambda broker=broker: self._tick(broker))
        self.at(1, self._act)

    # -- time -----------------------------------------------------------------------------------

    def at(self, delay_ms: int, run: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.now_ms + delay_ms, next(self._order), run))

    def later(self, broker: Broker, delay_ms: int, run: Callable[[], None]) -> None:
        """Call a function later, unless the broker is killed before."""
        incarnation = broker.incarnation

        def run_if_alive() -> None:
            if broker.is_alive and broker.incarnation == incarnation:
                run()

        self.at(delay_ms, run_if_alive)

    def run(self) -> None:
        self._run_until(FAULTY_MS)
        self.is_faulty = False
        self._cuts.clear()
        for broker in self.brokers.values():
            if not broker.is_alive:
                self._restart(broker)
        self._run_until(FAULTY_MS + QUIET_MS)
        self._check_end()

    def _run_until(self, end_ms: int) -> None:
        while self._events and self._events[0][0] <= end_ms:
            self.now_ms, _, run = heapq.heappop(self._events)
            run()
            self._check()

    # -- network --------------------------------------------------------------------------------

    def is_cut(self, a: int, b: int) -> bool:
        return frozenset((a, b)) in self._cuts

    def _delay(self) -> int:
        if self.is_faulty and self.draw.random() < self._late_share:
            return self.draw.randint(50, 1500)
        return self.draw.randint(1, 4)

    def _send(self, source: int, target: Broker, receive: Callable[[], None]) -> None:
        """Deliver a message to the target once, never, or twice."""
        chance = self.draw.random() if self.is_faulty else 1
        if self.is_cut(source, target.id) or chance < 0.03:
            return
        for _ in range(2 if chance < 0.06 else 1):

            def arrive() -> None:
                if target.is_alive:
                    receive()

            self.at(self._delay(), arrive)

    def _call(self, source: Broker, target_id: int, ask, done) -> None:
        """Send a request. `done` gets the response, or None if there is no response in time."""
        target = self.brokers[target_id]
        incarnation = source.incarnation
        is_done = False

        def finish(response) -> None:
            nonlocal is_done
            if not is_done and source.is_alive and source.incarnation == incarnation:
                is_done = True
                done(response)

        def respond(response) -> None:
            self._send(target_id, source, lambda: finish(response))

        self._send(source.id, target, lambda: ask(target, respond))
        self.later(source, TIMEOUT_MS, lambda: finish(None))

    def fetch(self, source: Broker, leader_id: int, fetcher, request) -> None:
        self._call(
            source,
            leader_id,
            lambda target, respond: target.serve(request, respond),
            lambda response: source.fetched(fetcher, response),
        )

    def look_up(self, source: Broker, leader_id: int, fetcher, request) -> None:
        self.counts["lookups"] += 1
        self._call(
            source,
            leader_id,
            lambda target, respond: respond(target.list_offsets(request)),
            lambda response: source.looked_up(fetcher, response),
        )

    def alter(self, source: Broker, replica: Replica, change) -> None:
        """A change of the ISR. A request that has no response in time is not made later."""
        leader = replica.leader

        def again() -> None:
            if replica.leader is leader and leader.pending is change:
                self.alter(source, replica, change)

        def ask() -> None:
            if self.is_cut(source.id, CONTROLLER_ID) or self.draw.random() < 0.05:
                self.later(source, 60, again)
                return
            result = self.controller.alter(source.id, source.epoch, replica.index, change)
            self.counts[f"alter {getattr(result, 'name', 'made')}"] += 1
            if self.is_faulty and self.draw.random() < 0.1:
                self.later(source, 60, again)  # the response is lost
                return

            def respond() -> None:
                if replica.leader is leader:
                    source.altered(replica.index, change, result)

            self.later(source, self.draw.randint(1, 10), respond)

        self.later(source, self.draw.randint(1, 10), ask)

    # -- metadata -------------------------------------------------------------------------------

    def _published(self, changes: list[Change]) -> None:
        for index, registration in changes:
            if index is not None:
                for member in (self.brokers[each] for each in registration.isr):
                    if member.is_alive:
                        self._check_acknowledged(member, member.replicas[index])
        for broker_id in BROKER_IDS:
            broker = self.brokers[broker_id]
            if broker.is_alive:
                self._news[broker_id].append(changes)
                self.later(broker, self.draw.randint(1, 20), lambda b=broker: self._deliver(b))

    def _deliver(self, broker: Broker) -> None:
        """Deliver the oldest change. Changes arrive in their order."""
        if self.is_cut(broker.id, CONTROLLER_ID):
            self.later(broker, 20, lambda: self._deliver(broker))
        elif self._news[broker.id]:
            broker.publish(self._news[broker.id].pop(0))

    # -- what happens -----------------------------------------------------------------------------

    def _tick(self, broker: Broker) -> None:
        if broker.is_alive:
            broker.tick()
            if self.controller.brokers[broker.id].fenced and not self.is_cut(
                broker.id, CONTROLLER_ID
            ):
                self.controller.unfence(broker.id, broker.epoch)
        self.at(TICK_MS, lambda: self._tick(broker))

    def _act(self) -> None:
        if self.is_faulty:
            self.at(self.draw.randint(1, self._pace_ms), self._act)
            if self.draw.random() < self._pace_ms / 200:
                self._disturb()
            else:
                self._produce()

    def _disturb(self) -> None:
        self.draw.choice(self._disturbances)()

    def _produce(self) -> None:
        broker = self.brokers[self.draw.choice(BROKER_IDS)]
        index = self.draw.randrange(PARTITIONS)
        if not broker.is_alive or broker.replicas[index].leader is None:
            return
        numbers = [next(self._numbers) for _ in range(self.draw.randint(1, 3))]
        replica = broker.replicas[index]
        start, epoch = replica.log.log_end_offset, replica.leader.leader_epoch
        since_ms = self.now_ms

        def told(is_committed: bool) -> None:
            self.counts["acknowledged" if is_committed else "failed"] += 1
            if is_committed:
                for offset, number in enumerate(numbers, start):
                    self.acknowledged[index][offset] = (epoch, number)
                self._check_copies(index, start, (epoch, numbers[0]), since_ms)

        broker.produce(index, numbers, told)

    def _kill(self) -> None:
        """Kill a broker. The page cache keeps its records."""
        broker = self.brokers[self.draw.choice(BROKER_IDS)]
        if broker.is_alive:
            self.counts["killed"] += 1
            self._crash(broker, loses=False)

    def _lose(self) -> None:
        """Cut the power of a broker, if another broker can continue."""
        broker = self.brokers[self.draw.choice(BROKER_IDS)]
        alive = {each.id for each in self.brokers.values() if each.is_alive} - {broker.id}
        isrs = [{*each.isr} for each in self.controller.partitions]
        if broker.is_alive and all(broker.id not in isr or isr & alive for isr in isrs):
            self.counts["lost power"] += 1
            self._lost_power_ms[broker.id] = self.now_ms
            self._crash(broker, loses=True)
            self.controller.fence(broker.id)

    def _crash(self, broker: Broker, loses: bool) -> None:
        broker.crash(loses)
        self._news[broker.id].clear()
        if self.draw.random() < 0.5:
            self.at(SESSION_MS, lambda: self._expire(broker))
        self.at(self.draw.randint(1, 400), lambda: self._restart(broker))

    def _expire(self, broker: Broker) -> None:
        """Fence a broker whose session has expired, because it is dead or disconnected."""
        if not broker.is_alive or self.is_cut(broker.id, CONTROLLER_ID):
            self.controller.fence(broker.id)

    def _restart(self, broker: Broker) -> None:
        if not broker.is_alive:
            broker.start(self.controller.register(broker.id))
            self._news[broker.id].clear()
            broker.publish(self.controller.snapshot())

    def _move(self) -> None:
        index = self.draw.randrange(PARTITIONS)
        self.counts["moved"] += 1
        if self.draw.random() < 0.3:
            self.controller.bump(index)
        else:
            self.controller.move_leader(index, self.draw.choice(BROKER_IDS))

    def _cut(self) -> None:
        pair = frozenset(self.draw.sample((CONTROLLER_ID, *BROKER_IDS), 2))
        self._cuts.add(pair)
        self.counts["cut"] += 1
        self.at(self.draw.randint(50, 600), lambda: self._cuts.discard(pair))
        if CONTROLLER_ID in pair:
            broker = self.brokers[max(pair)]
            self.at(SESSION_MS, lambda: self._expire(broker))

    def _delete(self) -> None:
        broker = self.brokers[self.draw.choice(BROKER_IDS)]
        if broker.is_alive:
            index = self.draw.randrange(PARTITIONS)
            broker.delete_records(index)
            start = broker.replicas[index].log.log_start_offset
            self._deleted_to[index] = max(self._deleted_to[index], start)

    # -- checks -----------------------------------------------------------------------------------

    def _check(self) -> None:
        for index, registration in enumerate(self.controller.partitions):
            broker = self.brokers.get(registration.leader)
            if broker is None or not broker.is_alive:
                continue
            replica = broker.replicas[index]
            leader = replica.leader
            if leader is None or leader.leader_epoch != registration.leader_epoch:
                continue
            mark = leader.high_watermark
            for each in registration.isr:
                member = self.brokers[each]
                if each != broker.id and member.is_alive:
                    self._check_equal(replica, member.replicas[index], each, mark)

            for each, follower in leader.followers.items():
                self._check_known(replica, each, follower)

    def _check_known(self, leader: Replica, member_id: int, known) -> None:
        """Check the leader's state of each follower that has not restarted."""
        member = self.brokers[member_id]
        replica = member.replicas[leader.index]
        if (
            member.is_alive
            and member.epoch == known.broker_epoch
            and replica.registration.leader_epoch == leader.leader.leader_epoch
        ):
            self._check_equal(leader, replica, member_id, known.log_end_offset)

    def _check_equal(self, leader: Replica, member: Replica, member_id: int, mark: int) -> None:
        one, other = leader.log, member.log
        # Deleted records may come back when a broker loses its log start offset.
        deleted_to = self._deleted_to[leader.index]
        start = max(one.log_start_offset, other.log_start_offset, deleted_to)
        if other.log_end_offset < mark or one.between(start, mark) != other.between(start, mark):
            raise Broken(
                f"seed {self.seed}, {self.now_ms} ms: the log of broker {member_id} for partition "
                f"{leader.index} (offsets {other.log_start_offset} to {other.log_end_offset}) "
                f"differs below {mark} from the log of {leader.leader}"
            )

    def moved(self, broker: Broker, replica: Replica) -> None:
        """Check the new high watermark of a leader."""
        leader = replica.leader
        key = replica.index, leader.leader_epoch
        if leader.high_watermark < self._high_watermarks.get(key, 0):
            raise Broken(f"seed {self.seed}: the high watermark of {leader} has gone down")
        self._high_watermarks[key] = leader.high_watermark

    def elected(self, broker: Broker, replica: Replica) -> None:
        """Check a broker that has begun to lead. A broker that is late may lack newer records."""
        newest = self.controller.partitions[replica.index]
        if replica.leader.leader_epoch == newest.leader_epoch:
            self._check_acknowledged(broker, replica)

    def _check_copies(self, index: int, offset: int, record: Record, since_ms: int) -> None:
        """Check that `min.insync.replicas` brokers have the acknowledged record, or had it and lost
        power."""
        if offset < self._deleted_to[index]:
            return
        copies = 0
        for broker in self.brokers.values():
            had_it = self._lost_power_ms[broker.id] >= since_ms
            copies += had_it or broker.replicas[index].log.between(offset, offset + 1) == [record]
        if copies < MIN_INSYNC_REPLICAS:
            raise Broken(
                f"seed {self.seed}, {self.now_ms} ms: the acknowledged record {record} at {offset} "
                f"of partition {index} has {copies} copies"
            )

    def _check_acknowledged(self, broker: Broker, replica: Replica) -> None:
        """Check the records that were not deleted by a request."""
        log, start = replica.log, replica.log.log_start_offset
        for offset, record in self.acknowledged[replica.index].items():
            at = offset - start
            if offset < self._deleted_to[replica.index]:
                continue
            if at >= 0 and (at >= len(log.records) or log.records[at] != record):
                raise Broken(
                    f"seed {self.seed}, {self.now_ms} ms: broker {broker.id} has lost the "
                    f"acknowledged record {record} at {offset} of partition {replica.index}"
                )

    def _check_end(self) -> None:
        for index, registration in enumerate(self.controller.partitions):
            leader = self.brokers[registration.leader].replicas[index]
            if sorted(registration.isr) != list(BROKER_IDS):
                raise Broken(f"seed {self.seed}: the ISR of partition {index} is {registration}")
            for broker in self.brokers.values():
                replica = broker.replicas[index]
                self._check_acknowledged(broker, replica)
                log, end = replica.log, leader.log.log_end_offset
                self._check_equal(leader, replica, broker.id, end)
                if not log.high_watermark == log.log_end_offset == end:
                    raise Broken(
                        f"seed {self.seed}: of partition {index} broker {broker.id} has "
                        f"{log.high_watermark} of {log.log_end_offset} committed, not {end}"
                    )
