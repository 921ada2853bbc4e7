"""Records that hypothesis draws."""

from __future__ import annotations

from hypothesis import strategies as st

from odradek.records.batch import SEQUENCE_MAX
from odradek.records.builder import RecordBatchBuilder
from odradek.records.compression import Codec

timestamps = st.integers(min_value=0, max_value=2**48)
content = (
    st.none()
    | st.binary(max_size=200)
    | st.binary(min_size=1, max_size=3).map(lambda piece: piece * 400)
)
headers = st.lists(st.tuples(st.text(max_size=8), st.none() | st.binary(max_size=20)), max_size=3)
record_fields = st.tuples(timestamps, content, content, headers.map(tuple))
codecs = st.sampled_from(list(Codec))


@st.composite
def builders(draw, codec=codecs):
    """A builder of an idempotent, transactional or plain batch, without records."""
    has_producer = draw(st.booleans())
    return RecordBatchBuilder(
        base_offset=draw(st.integers(min_value=0, max_value=2**60)),
        codec=draw(codec),
        leader_epoch=draw(st.integers(min_value=-1, max_value=2**31 - 1)),
        producer_id=draw(st.integers(min_value=0, max_value=2**62)) if has_producer else -1,
        producer_epoch=draw(st.integers(min_value=0, max_value=2**15 - 1)) if has_producer else -1,
        base_sequence=draw(st.integers(min_value=0, max_value=SEQUENCE_MAX))
        if has_producer
        else -1,
        is_transactional=has_producer and draw(st.booleans()),
        log_append_time=draw(st.none() | timestamps),
    )
