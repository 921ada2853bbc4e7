"""A sparse index has the same entries in memory, in its file, and after changes of both."""

from __future__ import annotations

from bisect import bisect_right
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from odradek.env.file_system import OsFileSystem
from odradek.log.index import OffsetIndex

FILE_SYSTEM = OsFileSystem()

actions = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 700)),
        st.tuples(st.just("write"), st.none()),
        st.tuples(st.just("truncate"), st.floats(0, 1)),
        st.tuples(st.just("ask"), st.lists(st.floats(0, 1.1), min_size=1, max_size=6)),
        st.tuples(st.just("open anew"), st.none()),
    ),
    max_size=12,
)


@given(actions)
def test_an_index_finds_what_a_list_finds(
    tmp_path_factory: object, steps: list[tuple[str, object]]
) -> None:
    path = str(Path(tmp_path_factory.mktemp("index"), "0.index"))  # type: ignore[attr-defined]
    index = OffsetIndex()
    index.write(FILE_SYSTEM, path)
    entries: list[tuple[int, int]] = []
    for action, argument in steps:
        if action == "append":
            for _ in range(int(argument)):  # type: ignore[call-overload]
                entries.append((3 * len(entries) + 2, 100 * len(entries)))
                index.append(*entries[-1])
        elif action == "write":
            index.write(FILE_SYSTEM, path)
        elif action == "truncate":
            count = int(len(entries) * argument)  # type: ignore[operator]
            index.truncate(FILE_SYSTEM, path, count)
            del entries[count:]
        elif action == "open anew":
            index.write(FILE_SYSTEM, path)
            index = OffsetIndex(len(entries))
        else:
            for share in argument:  # type: ignore[attr-defined]
                _compare(index, path, entries, share)
    _compare(index, path, entries, 0.5)


def _compare(index: OffsetIndex, path: str, entries: list[tuple[int, int]], share: float) -> None:
    key = int(share * 3 * len(entries)) - 1
    below = bisect_right(entries, key, key=lambda entry: entry[0])
    assert index.count_to(FILE_SYSTEM, path, key) == below
    assert index.floor(FILE_SYSTEM, path, key) == (entries[below - 1] if below else None)
    position = int(share * 100 * len(entries))
    up_to = bisect_right(entries, position, key=lambda entry: entry[1])
    assert index.count_to(FILE_SYSTEM, path, position, field=1) == up_to
    if below < len(entries):
        assert index.entry(FILE_SYSTEM, path, below) == entries[below]
