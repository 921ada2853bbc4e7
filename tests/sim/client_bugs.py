"""Bugs that are planted into the client of a simulated cluster (see `planted_bugs`).

They are regressions of other clients: librdkafka, franz-go, aiokafka and Apache Kafka's own. `REGRESSIONS`
in `tests.client.test_regressions` names the test that finds each of them.
"""

from __future__ import annotations

from odradek.client.core import commits, transaction_requests
from odradek.client.core.partition_queue import PartitionQueue
from odradek.client.core.producer import ProducerMachine
from odradek.client.core.transaction import TransactionMachine
from odradek.client.group_metadata import GroupMetadata
from odradek.client.metadata import ClusterMetadata


def restart_sequences_with_the_leader(patch):
    """The sequence numbers of a partition begin at 0 again when its leader is looked up."""
    put_back = PartitionQueue.put_back

    def forget(queue, batch, error, retry_at_ms):
        put_back(queue, batch, error, retry_at_ms)
        queue.next_sequence = 0

    patch.setattr(PartitionQueue, "put_back", forget)


def commit_in_spite_of_failed_batches(patch):
    """A batch that has failed for good gets a new epoch, and its transaction goes on."""

    def go_on(transaction, error, *, has_sequence):
        return error

    patch.setattr(TransactionMachine, "batch_failed", go_on)


def rebuild_retried_batches(patch):
    """A batch that is sent again has the records of the newest batch."""
    put_back = PartitionQueue.put_back

    def rebuild(queue, batch, error, retry_at_ms):
        put_back(queue, batch, error, retry_at_ms)
        batch.forget_sequence()

    patch.setattr(PartitionQueue, "put_back", rebuild)


def renumber_in_flight(patch):
    """A new epoch also renumbers the batches of partitions that wait for answers."""

    def renew(machine, queue):
        queue.settle()
        current = machine.identity
        if current is not None and queue.must_renew and machine.transaction is None:
            machine._ids.bump(current)
            for each in machine.records.active.values():
                for batch in list(each.in_flight):
                    each.in_flight.remove(batch)
                    each.ready.appendleft(batch)
                each.renew(machine.identity)
        elif current is not None and queue.identity != current and not queue.has_sequenced:
            queue.renew(current)

    patch.setattr(ProducerMachine, "_renew", renew)


def reuse_the_sequence_of_expired_batches(patch):
    """A batch that has expired in flight is taken for not written: the next one gets its number."""
    given_up = PartitionQueue.given_up

    def give_up(queue, batch, *, is_unknown):
        given_up(queue, batch, is_unknown=False)
        queue.must_renew = False
        if batch.has_sequence and not queue.in_flight:
            queue.next_sequence = batch.base_sequence

    patch.setattr(PartitionQueue, "given_up", give_up)


def take_an_unknown_end_for_a_commit(patch):
    """An error of EndTxn is taken for a success."""
    refused = TransactionMachine._refused

    def end(transaction, error, now_ms, api, key=None):
        if api == "EndTxn":
            transaction._ended(None)
        else:
            refused(transaction, error, now_ms, api, key)

    patch.setattr(TransactionMachine, "_refused", end)


def leave_the_member_out(patch):
    """The offsets of a transaction are committed under the id of the group alone."""
    commit_offsets = transaction_requests.commit_offsets

    def commit(transactional_id, identity, group, offsets):
        alone = GroupMetadata(group.group_id)
        return commit_offsets(transactional_id, identity, alone, offsets)

    patch.setattr(transaction_requests, "commit_offsets", commit)


def fetch_unstable_offsets(patch):
    """Committed offsets are fetched while a transaction may replace them."""
    fetch_request = commits._fetch_request

    def fetch(operation, sender):
        request = fetch_request(operation, sender)
        request.require_stable = False
        return request

    patch.setattr(commits, "_fetch_request", fetch)


def believe_any_metadata(patch):
    """A broker that has not heard of a new leader is believed."""
    patch.setattr(ClusterMetadata, "_merged", lambda metadata, before, topic: topic)


BUGS = {
    "the client restarts sequences with the leader": (restart_sequences_with_the_leader, 20, ""),
    "the client rebuilds retried batches": (rebuild_retried_batches, 20, ""),
    "the client reuses the sequence of expired batches": (
        reuse_the_sequence_of_expired_batches,
        20,
        "",
    ),
    "the client takes an unknown end for a commit": (take_an_unknown_end_for_a_commit, 20, ""),
    "the client leaves the member out of transactions": (
        leave_the_member_out,
        20,
        "processed 2 times",
    ),
    "the client fetches unstable offsets": (fetch_unstable_offsets, 20, "processed 2 times"),
}
"""The defects that the simulation looks for: the number of seeds, and a part of the violation."""
