"""Images as records and back, for random images; framing; metadata transactions."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.core.metadata.batch_loader import BatchLoader
from odradek.core.metadata.delta import MetadataDelta
from odradek.core.metadata.errors import MetadataFormatError, ReplayError
from odradek.core.metadata.image import (
    EMPTY_IMAGE,
    AccessControlEntry,
    BrokerRegistration,
    ClusterImage,
    ConfigResource,
    ConfigsImage,
    ControllerRegistration,
    DelegationToken,
    Endpoint,
    FeaturesImage,
    MetadataImage,
    PartitionRegistration,
    ScramCredential,
    TopicImage,
    TopicsImage,
    VersionRange,
)
from odradek.core.metadata.record import (
    RECORD_NAMES,
    decode_record,
    decode_record_and_version,
    encode_record,
    encode_record_as,
    record_class,
)
from odradek.core.metadata.snapshot import delta_between, image_records
from odradek.wire.generated.abort_transaction_record import AbortTransactionRecord
from odradek.wire.generated.begin_transaction_record import BeginTransactionRecord
from odradek.wire.generated.broker_registration_change_record import BrokerRegistrationChangeRecord
from odradek.wire.generated.end_transaction_record import EndTransactionRecord
from odradek.wire.generated.feature_level_record import FeatureLevelRecord
from odradek.wire.generated.partition_record import PartitionRecord
from odradek.wire.generated.producer_ids_record import ProducerIdsRecord
from odradek.wire.generated.register_broker_record import RegisterBrokerRecord

text = st.text(max_size=8)
names = st.text(min_size=1, max_size=8)
uuids = st.binary(min_size=16, max_size=16)
ids = st.integers(0, 2**31 - 1)
longs = st.integers(0, 2**63 - 1)
id_tuples = st.lists(ids, max_size=3).map(tuple)
ranges = st.builds(VersionRange, st.integers(0, 9), st.integers(0, 9))
features = st.dictionaries(names, ranges, max_size=3)


@st.composite
def partitions(draw):
    replicas = draw(st.lists(ids, min_size=1, max_size=3).map(tuple))
    return PartitionRegistration(
        replicas,
        tuple(draw(uuids) for _ in replicas),
        *(draw(id_tuples) for _ in range(5)),
        *(draw(st.integers(-1, 9)), draw(st.sampled_from([0, 1])), draw(ids), draw(ids)),
    )


@st.composite
def listeners(draw):
    endpoints = draw(
        st.lists(
            st.builds(Endpoint, names, text, st.integers(0, 65535), st.integers(0, 3)),
            max_size=2,
            unique_by=lambda each: each.name,
        )
    )
    return {each.name: each for each in endpoints}


@st.composite
def brokers(draw):
    return BrokerRegistration(
        draw(ids),
        draw(longs),
        draw(uuids),
        draw(listeners()),
        draw(features),
        draw(st.none() | text),
        draw(st.booleans()),
        draw(st.booleans()),
        draw(st.booleans()),
        tuple(sorted(draw(st.lists(uuids, max_size=2)))),
        draw(st.none() | st.lists(uuids, max_size=2).map(tuple)),
    )


controllers = st.builds(ControllerRegistration, ids, uuids, st.booleans(), listeners(), features)


def by_id(values):
    return st.lists(values, max_size=3).map(lambda found: {each.id: each for each in found})


def topics_image(found):
    # A topic id belongs to one name in all images.
    made = [
        TopicImage(name, name.encode().hex().encode()[:15].ljust(15) + bytes((turn,)), partitions)
        for name, (turn, partitions) in found.items()
    ]
    return TopicsImage({t.name: t for t in made}, {t.id: t for t in made})


topics = st.dictionaries(
    st.sampled_from("abcd"),
    st.tuples(st.integers(1, 2), st.dictionaries(ids, partitions(), max_size=3)),
    max_size=3,
).map(topics_image)

settings_of = st.dictionaries(names, text, min_size=1, max_size=3)
entities = st.dictionaries(
    st.sampled_from(["user", "client-id", "ip"]), st.none() | text, min_size=1, max_size=2
).map(lambda found: tuple(sorted(found.items())))
floats = st.floats(allow_nan=False)

images = st.builds(
    MetadataImage,
    longs,
    ids,
    st.builds(
        FeaturesImage,
        st.dictionaries(names, st.integers(1, 99), max_size=3).map(
            lambda found: {"metadata.version": 30, **found}
        ),
    ),
    st.builds(ClusterImage, by_id(brokers()), by_id(controllers)),
    topics,
    st.builds(
        ConfigsImage,
        st.dictionaries(
            st.builds(ConfigResource, st.sampled_from([2, 4, 16, 32]), text),
            settings_of,
            max_size=3,
        ),
    ),
    st.dictionaries(entities, st.dictionaries(names, floats, min_size=1, max_size=2), max_size=2),
    st.integers(-1, 2**62),
    st.dictionaries(
        uuids,
        st.builds(
            AccessControlEntry,
            *[st.integers(0, 9), text, st.integers(0, 9), text, text],
            *[st.integers(0, 9), st.integers(0, 9)],
        ),
        max_size=2,
    ),
    st.dictionaries(
        st.tuples(st.integers(1, 2), text),
        st.builds(ScramCredential, st.binary(), st.binary(), st.binary(), ids),
        max_size=2,
    ),
    st.dictionaries(
        text,
        st.builds(
            DelegationToken, text, text, st.lists(text, max_size=2).map(tuple), longs, longs, longs
        ),
        max_size=2,
    ),
)


def rewrite(image):
    """The records of an image through their bytes."""
    level = image.features.metadata_version
    return [decode_record(encode_record(each, level)) for each in image_records(image)]


@settings(max_examples=60)
@given(images, images)
def test_the_records_of_an_image_make_it_again(image, other):
    loader = BatchLoader(other)
    delta, loaded = loader.load_snapshot(rewrite(image), image.offset, image.epoch)
    assert loaded == image
    assert delta.image_before is other


@settings(max_examples=30)
@given(images, images)
def test_a_snapshot_tells_what_it_removes(image, other):
    delta, loaded = BatchLoader(other).load_snapshot(rewrite(image), image.offset, image.epoch)
    gone = {topic_id for topic_id in other.topics.by_id if topic_id not in loaded.topics.by_id}
    assert {topic_id for topic_id, _ in delta.topics.deleted} == gone
    for broker_id in other.cluster.brokers.keys() - loaded.cluster.brokers.keys():
        assert delta.cluster.brokers.changed[broker_id] is None
    for resource in other.configs.by_resource.keys() - loaded.configs.by_resource.keys():
        assert delta.configs.changed[resource] is None


@settings(max_examples=60)
@given(images, images)
def test_the_delta_between_two_images(image, other):
    # The records have the level of the new image. State without records at this level is omitted.
    expected = BatchLoader().load_snapshot(list(image_records(image)), image.offset, image.epoch)[1]
    delta = delta_between(other, image)
    assert delta.image_before is other
    assert delta.apply(image.offset, image.epoch) == expected


def test_metadata_version_is_the_first_record():
    image = MetadataImage(features=FeaturesImage({"group.version": 1, "metadata.version": 30}))
    first = next(iter(image_records(image)))
    assert first == FeatureLevelRecord(name="metadata.version", feature_level=30)


@pytest.mark.parametrize(
    ("record", "level", "version"),
    [
        (PartitionRecord(), 30, 2),
        (PartitionRecord(), 22, 1),
        (PartitionRecord(), 16, 0),
        (RegisterBrokerRecord(), 30, 4),
        (RegisterBrokerRecord(), 17, 3),
        (RegisterBrokerRecord(), 8, 2),
        (RegisterBrokerRecord(), 7, 1),
        (BrokerRegistrationChangeRecord(fenced=-1), 30, 0),
        (BrokerRegistrationChangeRecord(in_controlled_shutdown=1), 30, 1),
        (BrokerRegistrationChangeRecord(log_dirs=[bytes(16)]), 30, 2),
        (BrokerRegistrationChangeRecord(cordoned_log_dirs=[]), 30, 3),
        (FeatureLevelRecord(name="x", feature_level=1), 30, 0),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, int) else str(value),
)
def test_the_version_written(record, level, version):
    value = encode_record(record, level)
    assert decode_record_and_version(value) == (record, version)


def test_every_record_type_is_framed():
    for key in RECORD_NAMES:
        cls = record_class(key)
        for version in range(cls.VERSION_MIN, cls.VERSION_MAX + 1):
            value = encode_record_as(cls(), version)
            assert value[:3] == bytes((1, key, version))
            assert decode_record_and_version(value) == (cls(), version)


@pytest.mark.parametrize(
    "value",
    [b"", b"\x01", b"\x01\x02", b"\x00\x02\x00", b"\x01\x06\x00", b"\x01\x63\x00", b"\x01\x02\x05",
     b"\x01\x02\x00", b"\x01\x14\x00\x00garbage", b"\xff\xff\xff\xff\xff\xff"],
)  # fmt: skip
def test_values_that_are_no_records_are_refused(value):
    with pytest.raises(MetadataFormatError):
        decode_record(value)


def producer_ids(next_id):
    return ProducerIdsRecord(next_producer_id=next_id)


def test_a_transaction_is_shown_as_a_whole():
    loader = BatchLoader()
    loader.load([producer_ids(1)], 0, 1)
    loader.load([BeginTransactionRecord(name="x"), producer_ids(2)], 1, 1)
    _, image = loader.flush()
    assert (image.offset, image.next_producer_id) == (0, 1)
    loader.load([producer_ids(3)], 3, 1)
    assert loader.flush() is None
    loader.load([EndTransactionRecord(), producer_ids(4)], 4, 2)
    delta, image = loader.flush()
    assert delta.image_before.next_producer_id == 1
    assert (image.offset, image.epoch, image.next_producer_id) == (5, 2, 4)
    assert loader.flush() is None


def test_an_aborted_transaction_leaves_nothing():
    loader = BatchLoader()
    loader.load([BeginTransactionRecord(), producer_ids(2), AbortTransactionRecord()], 0, 1)
    _, image = loader.flush()
    assert (image.offset, image.next_producer_id) == (2, -1)


@pytest.mark.parametrize(
    "records",
    [
        [BeginTransactionRecord(), BeginTransactionRecord()],
        [EndTransactionRecord()],
        [AbortTransactionRecord()],
    ],
)
def test_transactions_that_are_not_paired_are_refused(records):
    with pytest.raises(ReplayError):
        BatchLoader().load(records, 0, 1)


def test_an_empty_delta_keeps_every_part():
    before = MetadataImage()
    after = MetadataDelta(before).apply(7, 1)
    assert (after.offset, after.epoch) == (7, 1)
    assert after.topics is before.topics
    assert after.features is before.features
    assert after == MetadataImage(7, 1)
    assert before == EMPTY_IMAGE
