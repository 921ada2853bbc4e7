"""Memory that grows keeps its bytes."""

from __future__ import annotations

import sys

import pytest

from odradek.env.large_memory import MAPPED_BYTES_MIN, allocate, enlarge


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can enlarge mapped memory")
def test_large_memory_grows_without_a_copy():
    memory = allocate(MAPPED_BYTES_MIN)
    memory[:4] = b"head"
    memory[-4:] = b"tail"
    larger = enlarge(memory, 4 * MAPPED_BYTES_MIN + 5)
    assert len(larger) == 4 * MAPPED_BYTES_MIN + 5
    assert larger[:4] == b"head"
    assert larger[MAPPED_BYTES_MIN - 4 : MAPPED_BYTES_MIN + 4] == b"tail\0\0\0\0"
    larger[-1:] = b"!"
    with pytest.raises(ValueError, match="released"):
        memory[0]


def test_memory_with_another_view_does_not_grow():
    memory = allocate(MAPPED_BYTES_MIN)
    view = memory[10:20]
    view[:] = b"0123456789"
    same = enlarge(memory, 2 * MAPPED_BYTES_MIN)
    assert len(same) == MAPPED_BYTES_MIN
    assert same[10:20] == b"0123456789" == view


def test_small_memory_does_not_grow():
    memory = allocate(100)
    assert memory == bytes(100)
    assert enlarge(memory, 200) is memory
