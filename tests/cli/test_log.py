"""`odradek log`: dump, verify and repair files of our own and of Apache Kafka."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.log.support import (
    PARTITION,
    LogWorkspace,
    batch,
    end_transaction,
    read_records,
)
from tests.support.child import Child

from odradek.cli.main import root
from odradek.records.compression import Codec

FIXTURES = Path(__file__).parents[1] / "fixtures" / "apache-kafka-4.3.0"
SETTINGS = {"segment_bytes": 5000, "index_interval_bytes": 200}
FIRST, SECOND = "00000000000000000000", "00000000000000000024"


def run(*words: object, code: int = 0) -> str:
    """What it prints; the words of an error where it ends with one."""
    result = _invoke(words, code)
    return result.stdout or (result.output if code else "")


def told(*words: object, code: int = 0) -> str:
    """All that it says, notes too."""
    return _invoke(words, code).output


def _invoke(words: tuple[object, ...], code: int) -> Result:
    result = CliRunner().invoke(root, ["log", *map(str, words)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.output
    assert result.exit_code == code, result.output
    return result


def lines(*words: object, code: int = 0) -> list[dict]:
    return [json.loads(line) for line in run(*words, "--json", code=code).splitlines()]


@pytest.fixture
def partition(tmp_path) -> Path:
    """Two segments: plain, compressed, an aborted transaction."""
    workspace = LogWorkspace(tmp_path / "data")
    workspace.storage.verify_transactions = False
    log = workspace.open(**SETTINGS)
    for number in range(10):
        log.append_as_leader(batch((b"key", b"v%d" % number), (None, b"x" * 200)), 0)
    fields = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
    log.append_as_leader(batch((b"t", b"1"), codec=Codec.LZ4, **fields), 0)
    end_transaction(log, False, 7)
    log.append_as_leader(batch((b"a", b"1"), (b"b", None)), 0)
    log.roll()
    for _ in range(8):
        log.append_as_leader(batch((b"z", b"y" * 100)), 0)
    log.high_watermark = log.log_end_offset
    log.close()
    return Path(log.path)


def test_dump_tells_batches_and_records(partition):
    found = lines("dump", partition / f"{FIRST}.log", "--records")
    batches = [each for each in found if each["entry"] == "batch"]
    assert [each["base_offset"] for each in batches] == [*range(0, 20, 2), 20, 21, 22]
    assert batches[10]["codec"] == "lz4"
    assert batches[10]["transactional"]
    records = [each for each in found if each["entry"] == "record"]
    assert (records[0]["key"], records[0]["value"]) == ("key", "v0")
    assert records[-1]["value"] is None
    [marker] = [each for each in found if each["entry"] == "control record"]
    assert (marker["type"], marker["producer_id"]) == ("ABORT", 7)


def test_dump_tells_every_file_of_a_directory(partition):
    found = lines("dump", partition)
    kinds = {(Path(each["file"]).name, each["entry"]) for each in found}
    assert {
        (f"{FIRST}.index", "offset"),
        (f"{FIRST}.timeindex", "time"),
        (f"{FIRST}.txnindex", "aborted transaction"),
        (f"{SECOND}.snapshot", "producer"),
        ("leader-epoch-checkpoint", "leader epoch"),
    } <= kinds
    text = run("dump", partition, "--records", "--limit", 3)
    assert "(segment)" in text
    assert "…" in text


def test_a_file_of_another_name_is_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("hello")
    assert "does not have the name" in run("dump", tmp_path / "notes.txt", code=1)


def test_records_of_the_coordinators_are_decoded(tmp_path):
    directory = tmp_path / "__consumer_offsets-2"
    directory.mkdir()
    shutil.copy(FIXTURES / "__consumer_offsets-2.log", directory / f"{FIRST}.log")
    found = [each for each in lines("dump", directory, "--records") if each["entry"] == "record"]
    assert "problem" not in {name for each in found for name in each}
    assert {each["type"] for each in found} & {"OffsetCommit", "GroupMetadata"} or found

    directory = tmp_path / "__transaction_state-0"
    directory.mkdir()
    shutil.copy(FIXTURES / "__transaction_state-0.log", directory / f"{FIRST}.log")
    found = [each for each in lines("dump", directory, "--records") if each["entry"] == "record"]
    assert found[0]["type"] == "TransactionLog"
    assert found[0]["key"]["transactional_id"]


def test_metadata_and_its_snapshots_are_decoded(tmp_path):
    directory = tmp_path / "__cluster_metadata-0"
    directory.mkdir()
    shutil.copy(FIXTURES / "cluster_metadata.log", directory / f"{FIRST}.log")
    found = lines("dump", directory, "--records")
    types = {each["type"] for each in found if "record" in each["entry"]}
    assert {"TopicRecord", "PartitionRecord", "LEADER_CHANGE"} <= types
    found = lines("dump", FIXTURES / f"{FIRST}-0000000000.checkpoint", "--records")
    assert {"SNAPSHOT_HEADER", "SNAPSHOT_FOOTER"} <= {each.get("type") for each in found}


def test_sound_files_verify(partition):
    files = len(list(partition.iterdir()))
    found = json.loads(run("verify", partition.parent, "--json"))
    assert found == {"ok": True, "files": files, "problems": []}
    assert told("verify", partition.parent) == f"No problems in {files} files.\n"
    assert told("repair", partition.parent) == "No problems in 1 partition.\n"
    run("verify", partition / f"{FIRST}.log")
    run("verify", partition / f"{FIRST}.index")


def test_where_there_is_nothing_nothing_holds(tmp_path):
    (tmp_path / "meta.properties").write_text("version=1\n")
    assert "There is no file to check" in told("verify", tmp_path, code=1)
    found = json.loads(told("verify", tmp_path, "--json", code=1).partition("Error")[0])
    assert (found["ok"], found["files"]) == (False, 0)
    assert "There is no partition to check" in told("repair", tmp_path, code=1)


def test_damage_in_a_metadata_snapshot_is_found_in_its_directory(tmp_path):
    directory = tmp_path / "__cluster_metadata-0"
    directory.mkdir()
    shutil.copy(FIXTURES / f"{FIRST}-0000000000.checkpoint", directory)
    run("verify", tmp_path)
    _damage(directory / f"{FIRST}-0000000000.checkpoint", 70, b"\xff")
    assert _problems(tmp_path) == [f"{FIRST}-0000000000.checkpoint: the checksum is wrong"]


def _damage(path: Path, position: int, data: bytes) -> None:
    content = bytearray(path.read_bytes())
    content[position : position + len(data)] = data
    path.write_bytes(content)


def _problems(path: Path) -> list[str]:
    found = json.loads(run("verify", path, "--json", code=1))["problems"]
    return [f"{Path(each['file']).name}: {each['problem']}" for each in found]


@pytest.mark.parametrize(
    ("name", "position", "data", "text"),
    [
        (f"{FIRST}.log", 700, b"\xff\xff", "checksum"),
        (f"{FIRST}.log", 8, b"\x7f", "cut off"),
        (f"{FIRST}.index", 4, b"\0\0\1\1", "does not point at a batch"),
        (f"{FIRST}.timeindex", 0, b"\1", "no batch ends"),
        (f"{FIRST}.txnindex", 2, b"\0\0\0\0\0\0\0\1", "is missing"),
        (f"{SECOND}.snapshot", 12, b"\xff", "checksum"),
        ("leader-epoch-checkpoint", 0, b"7", "version"),
        ("partition.metadata", 9, b"9", "version"),
    ],
)
def test_damage_is_found(partition, name, position, data, text):
    if name == "partition.metadata":
        (partition / name).write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n")
    _damage(partition / name, position, data)
    assert any(name in problem and text in problem for problem in _problems(partition))


def _open(partition: Path):
    workspace = LogWorkspace(partition.parent)
    return workspace.reopen(PARTITION, {"recovery_point": 2**62, "was_clean": True}, **SETTINGS)


def test_a_torn_end_is_cut_off(partition):
    path = partition / f"{SECOND}.log"
    whole = path.read_bytes()
    path.write_bytes(whole[:-50])

    told = run("repair", partition)
    assert "cut off the last" in told
    assert path.read_bytes() == whole[:-50], "a dry run changes nothing"

    run("repair", partition, "--execute")
    run("verify", partition)
    log = _open(partition)
    assert log.log_end_offset == 31
    assert read_records(log)[-1].offset == 30
    log.close()


def test_indexes_are_rebuilt(partition):
    before = {}
    for kind in (".index", ".timeindex", ".txnindex"):
        path = partition / f"{FIRST}{kind}"
        before[kind] = path.read_bytes()
        path.unlink() if kind != ".timeindex" else path.write_bytes(b"\x01" * 24)
    run("repair", partition, "--execute")
    run("verify", partition)
    assert (partition / f"{FIRST}.txnindex").read_bytes() == before[".txnindex"]
    assert (partition / f"{FIRST}.timeindex").read_bytes()[-12:] == before[".timeindex"][-12:]


def test_a_damaged_snapshot_is_removed(partition):
    path = partition / f"{SECOND}.snapshot"
    _damage(path, 12, b"\xff")
    run("repair", partition, "--execute")
    assert not path.exists()


def test_damage_in_the_midst_is_left_alone(partition):
    path = partition / f"{FIRST}.log"
    _damage(path, 700, b"\xff\xff")
    before = path.read_bytes()
    found = json.loads(run("repair", partition, "--execute", "--json", code=1))["repairs"]
    assert [each["possible"] for each in found] == [False]
    assert path.read_bytes() == before


HOLDER = """
import fcntl, sys
lock = open(sys.argv[1], "r+")
fcntl.lockf(lock, fcntl.LOCK_EX)
print("locked", flush=True)
sys.stdin.read()
"""


def test_repair_refuses_while_a_node_works(partition):
    lock = partition.parent / ".lock"
    lock.touch()
    with Child([sys.executable, "-c", HOLDER, lock], hears=True, talks=True) as holder:
        assert holder.line() == "locked"
        assert "a node works" in run("repair", partition, "--execute", code=1)
        assert holder.finish() == 0
    assert run("repair", partition) == ""


def test_a_path_that_is_not_there(tmp_path):
    for command in ("dump", "verify", "repair"):
        run(command, tmp_path / "nowhere", code=1)
