"""Intended differences from Apache Kafka's outcomes of invalid input, each with the reason."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import NamedTuple


class Deviation(NamedTuple):
    """Cases whose outcome differs in the same way for the same reason."""

    file: str
    """The test file, without `.py`."""
    cases: str
    """The names of the cases, as a shell pattern."""
    theirs: str
    ours: str
    reason: str
    count: int = 1
    """How many of the matching cases differ."""

    def allows(self, case: str, theirs: str, ours: str) -> bool:
        """Return whether the case may have these two outcomes."""
        return (theirs, ours) == (self.theirs, self.ours) and fnmatchcase(case, self.cases)


_REFUSED = ("UNKNOWN_SERVER_ERROR", "INVALID_RECORD")
_NOT_READABLE = (
    "Apache Kafka's decompressor or decoder raises an exception that is not handled, and the "
    "producer gets UNKNOWN_SERVER_ERROR; Odradek returns INVALID_RECORD."
)
_LENGTHS = (
    "Apache Kafka does not compare the length of a compressed record with its parts, and appends "
    "records that no consumer can read."
)
_RESERVED = "Java ignores these bits of the frame; the libraries of other consumers reject them."
_METADATA = (
    "Apache Kafka fails when it decodes the subscription, and the group never completes its rebalance; "
    "Odradek completes it, and the assignor of the leader decides."
)
_TWICE = (
    "Apache Kafka fails on a protocol that is listed twice, and the group never completes its "
    "rebalance; Odradek counts it once."
)
_PATTERN_LIMITS = "Patterns have limits, so that matching is fast; see docs/gaps.md."
_NEVER_ANSWERED = "Apache Kafka waits for a result that never comes, and sends no response."
_NO_PRODUCER = "No producer has a negative id, and the marker would stay in the log."
_NEGATIVE_EPOCH = "Apache Kafka 4.4 refuses negative epochs, which were not fenced (KAFKA-20743)."
_BOMB = "A small batch must not make the broker decompress hundreds of megabytes."


def _corpus(cases: str, outcomes: tuple[str, str], reason: str, count: int) -> Deviation:
    return Deviation("test_corpus", cases, *outcomes, reason, count)


def _coordinators(cases: str, theirs: str, ours: str, reason: str, count: int = 1) -> Deviation:
    return Deviation("test_coordinator_requests", cases, theirs, ours, reason, count)


def _shares(cases: str, theirs: str, ours: str, reason: str, count: int = 1) -> Deviation:
    return Deviation("test_requests_with_one_invalid_field", cases, theirs, ours, reason, count)


def _negative_epochs() -> list[Deviation]:
    """Return the differences of requests with a negative epoch of a share partition's state."""
    counts = {
        ("InitializeShareGroupState", "state_epoch", "FENCED_STATE_EPOCH"): 3,
        ("InitializeShareGroupState", "state_epoch", "NONE"): 1,
        ("ReadShareGroupState", "leader_epoch", "FENCED_LEADER_EPOCH"): 4,
        ("WriteShareGroupState", "state_epoch", "FENCED_STATE_EPOCH"): 3,
        ("WriteShareGroupState", "state_epoch", "NONE"): 1,
        ("WriteShareGroupState", "leader_epoch", "FENCED_LEADER_EPOCH"): 3,
        ("WriteShareGroupState", "leader_epoch", "NONE"): 1,
    }
    return [
        _shares(f"{api} * *.{field} = -*", theirs, "INVALID_REQUEST", _NEGATIVE_EPOCH, count)
        for (api, field, theirs), count in counts.items()
    ]


_SHARE_LIMIT = (
    "Apache Kafka fails after it has stored the acknowledgements; with a negative limit Odradek "
    "returns no records."
)
_SHARE_TOPIC_ID = (
    "Apache Kafka fails on a topic without a name, and the whole request has this error; Odradek "
    "returns UNKNOWN_TOPIC_ID for the topic, and serves the others."
)
_SHARE_GROUP = (
    "Apache Kafka fails on an empty group id; Odradek returns no offsets, as for any unknown group."
)
_SHARE_PARTITIONS = (
    "Apache Kafka's client of the share coordinator fails on an empty list of partitions and on "
    "negative partitions; Odradek returns no offset for them, and those of the other partitions."
)
_SHARE_ALTERED = (
    "Apache Kafka's client of the share coordinator fails on negative partitions, and the group "
    "has them from then on; Odradek refuses them as other partitions that do not exist."
)
_APPENDED = ("NONE", "INVALID_RECORD")
DEVIATIONS: tuple[Deviation, ...] = (
    _corpus("headers with valid checksum: bit 18[123], valid checksum", _REFUSED, _NOT_READABLE, 3),
    _corpus("cut: GZIP cut to *", _REFUSED, _NOT_READABLE, 87),
    _corpus("cut: SNAPPY cut to *", _REFUSED, _NOT_READABLE, 89),
    _corpus("cut: LZ4 cut to *", _REFUSED, _NOT_READABLE, 89),
    _corpus("cut: ZSTD cut to *", _REFUSED, _NOT_READABLE, 82),
    _corpus("damaged records: bit * of GZIP records", _REFUSED, _NOT_READABLE, 604),
    _corpus("damaged records: bit * of SNAPPY records", _REFUSED, _NOT_READABLE, 181),
    _corpus("damaged records: bit * of LZ4 records", _REFUSED, _NOT_READABLE, 200),
    _corpus("damaged records: bit * of ZSTD records", _REFUSED, _NOT_READABLE, 162),
    _corpus("damaged records: bit 2[456] of GZIP records", _APPENDED, _RESERVED, 3),
    _corpus("damaged records: bit 704 of LZ4 records", _APPENDED, _RESERVED, 1),
    _corpus("damaged records: bit [145]?? of LZ4 records", _APPENDED, _LENGTHS, 24),
    _corpus("damaged records: bit ??? of SNAPPY records", _APPENDED, _LENGTHS, 24),
    _corpus("damaged records: bit * of ZSTD records", _APPENDED, _LENGTHS, 24),
    _corpus("bombs: GZIP record of 300 MB", _APPENDED, _BOMB, 1),
    _corpus("bombs: ZSTD record of 300 MB", _APPENDED, _BOMB, 1),
    _corpus("bombs: snappy *", _REFUSED, _NOT_READABLE, 4),
    _corpus("bombs: zstd that claims much", _REFUSED, _NOT_READABLE, 2),
    _corpus("bombs: lz4 that claims much", _REFUSED, _NOT_READABLE, 1),
    *(
        Deviation("test_batches", case, *_REFUSED, _NOT_READABLE)
        for case in (
            "length 2^31 - 1",
            "codec 5",
            "codec 7",
            "garbage instead of records",
            "not gzip",
            "not snappy",
            "not lz4",
            "not zstd",
        )
    ),
    _coordinators(
        "OffsetFetch 10 after join_consumer: groups.0.member_id = null",
        "NONE, UNKNOWN_SERVER_ERROR",
        "NONE, UNKNOWN_MEMBER_ID",
        "Apache Kafka fails on a member epoch without a member id; no member has that id.",
    ),
    _coordinators(
        "JoinGroup * after join_classic: protocols = *", "UNKNOWN_SERVER_ERROR", "NONE", _TWICE, 4
    ),
    _coordinators(
        "JoinGroup * after join_classic: protocols.0.metadata = *",
        "UNKNOWN_SERVER_ERROR",
        "NONE",
        _METADATA,
        4,
    ),
    _coordinators(
        "ConsumerGroupHeartbeat 1 after join_consumer: subscribed_topic_regex = *",
        "NONE",
        "INVALID_REGULAR_EXPRESSION",
        _PATTERN_LIMITS,
        2,
    ),
    _coordinators(
        "ListTransactions 2 after begin: transactional_id_pattern = *",
        "NONE",
        "INVALID_REGULAR_EXPRESSION",
        _PATTERN_LIMITS,
        2,
    ),
    _coordinators(
        "AddPartitionsToTxn 5 after begin: transactions = nothing",
        "no answer",
        "NONE",
        _NEVER_ANSWERED,
    ),
    _coordinators(
        "WriteTxnMarkers 1 after begin: markers.0.topics*", "no answer", "NONE", _NEVER_ANSWERED, 4
    ),
    _coordinators(
        "WriteTxnMarkers 1 after begin: markers.0.producer_id = -*",
        "NONE",
        "UNKNOWN_SERVER_ERROR",
        _NO_PRODUCER,
        3,
    ),
    _shares(
        "ShareFetch * after acquire: max_bytes = -*",
        "NONE, UNKNOWN_SERVER_ERROR",
        "NONE",
        _SHARE_LIMIT,
        4,
    ),
    _shares(
        "ShareFetch * after acquire: topics.0.topic_id = *",
        "UNKNOWN_SERVER_ERROR",
        "NONE, UNKNOWN_TOPIC_ID",
        _SHARE_TOPIC_ID,
        2,
    ),
    _shares(
        "DescribeShareGroupOffsets 1 after set_offsets: groups.0.group_id = empty",
        "UNKNOWN_SERVER_ERROR",
        "NONE",
        _SHARE_GROUP,
    ),
    _shares(
        "DescribeShareGroupOffsets 1 after set_offsets: groups.0.topics.0.partitions = *",
        "UNKNOWN_SERVER_ERROR",
        "NONE",
        _SHARE_PARTITIONS,
        9,
    ),
    _shares(
        "AlterShareGroupOffsets 0 after set_offsets: topics.0.partitions.0.partition_index = -*",
        "UNKNOWN_SERVER_ERROR",
        "NONE, UNKNOWN_TOPIC_OR_PARTITION",
        _SHARE_ALTERED,
        4,
    ),
    *_negative_epochs(),
)
