"""The log that is compacted, and the measured process that compacts it."""

from __future__ import annotations

from pathlib import Path

from bench.compaction.__main__ import compare
from bench.compaction.clean import clean
from bench.compaction.logs import content, copy, fill, open_directory

from odradek.records.compression import Codec

RECORDS, KEYS = 3000, 300


def test_a_copy_is_cleaned_and_the_original_stays(tmp_path: Path) -> None:
    log = open_directory(tmp_path / "made")
    fill(log, RECORDS, KEYS, Codec.LZ4)
    before = list(content(log))
    log.close()
    for name in ("one", "other"):
        copy(tmp_path / "made", tmp_path / name)
        assert clean(tmp_path / name)["seconds"] >= 0
    last = {key: (offset, value) for offset, _, key, value in before}
    cleaned = open_directory(tmp_path / "one")
    assert {key: (offset, value) for offset, _, key, value in content(cleaned)} == last
    cleaned.close()
    assert compare(tmp_path / "one", tmp_path / "other") == len(last)
    log = open_directory(tmp_path / "made")
    assert list(content(log)) == before
    log.close()
