"""The file of offsets is Java's: a HashMap of byte arrays."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.core.connect import java_map
from odradek.core.connect.offsets import OffsetMap, offset_key

MAPS = st.dictionaries(st.binary(max_size=40), st.binary(max_size=40), max_size=30)


@given(MAPS)
def test_what_is_written_is_read(values: dict[bytes, bytes]):
    assert java_map.load(java_map.dump(values)) == values


@given(MAPS, st.data())
def test_a_part_of_a_file_is_refused(values: dict[bytes, bytes], data: st.DataObject):
    whole = java_map.dump({b"k": b"v", **values})
    part = whole[: data.draw(st.integers(1, len(whole) - 3))]
    with pytest.raises(java_map.MalformedMapError):
        java_map.load(part)


def test_the_stored_bytes_of_a_key_are_used_again():
    stored = {b'["c",{"b":2,"a":1}]': b'{"n":1}'}
    offsets = OffsetMap(dict(stored))
    assert offsets.get("c", {"a": 1, "b": 2}) == {"n": 1}
    assert offsets.key_of("c", {"a": 1, "b": 2}) == b'["c",{"b":2,"a":1}]'
    assert offsets.key_of("c", {"ä": None}) == offset_key("c", {"ä": None})
    assert offset_key("c", {"ä": None}) == '["c",{"ä":null}]'.encode()
