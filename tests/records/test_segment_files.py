"""The format of segment files, which the log writes and Spark reads by itself."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.records.segment_files import (
    ABORTED_ENTRY,
    LOG,
    OFFSET_ENTRY,
    TIME_ENTRY,
    AbortedTransaction,
    decode_aborted,
    encode_aborted,
    file_name,
    offset_of,
    whole_length,
)

INT64 = st.integers(-(2**63), 2**63 - 1)
TRANSACTIONS = st.lists(st.builds(AbortedTransaction, INT64, INT64, INT64, INT64))


@given(st.integers(0, 2**63 - 1))
def test_names(offset) -> None:
    name = file_name(offset, LOG)
    assert len(name) == 24
    assert offset_of(name) == offset


@pytest.mark.parametrize("name", ["", "1.log", "leader-epoch-checkpoint", f"{'٣' * 20}.log"])
def test_names_without_an_offset(name) -> None:
    assert offset_of(name) is None


def test_the_bytes_of_entries() -> None:
    assert OFFSET_ENTRY.pack(1, 2).hex() == "0000000100000002"
    assert TIME_ENTRY.pack(1, 2).hex() == "000000000000000100000002"
    assert encode_aborted([AbortedTransaction(1, 2, 3, 4)]).hex() == "0000" + "".join(
        f"{each:016x}" for each in (1, 2, 3, 4)
    )


@given(TRANSACTIONS, st.binary(max_size=ABORTED_ENTRY.size - 1))
def test_a_part_of_an_entry_is_left_out(transactions, rest) -> None:
    data = encode_aborted(transactions)
    assert whole_length(len(data + rest), ABORTED_ENTRY) == len(data)
    assert decode_aborted(data + rest) == transactions


def test_another_version() -> None:
    with pytest.raises(ValueError, match="version 1"):
        decode_aborted(b"\0\1" + bytes(ABORTED_ENTRY.size - 2))
