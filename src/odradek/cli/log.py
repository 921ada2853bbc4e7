"""`odradek log`: shows, checks and repairs the files of a data directory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from odradek.cli.log_dump import documents, line_of
from odradek.cli.options import json_lines_option, json_option
from odradek.cli.output import note, print_json, styled
from odradek.env.file_system import OsFileSystem
from odradek.log.errors import DamagedFile, DirectoryInUse
from odradek.log.inspect import (
    Kind,
    files_in,
    is_partition_directory,
    kind_of,
    partition_directories,
)
from odradek.log.inspect_repair import Repair, find_repairs, lock_directory
from odradek.log.inspect_verify import (
    Problem,
    segment_of,
    verify_directory,
    verify_file,
    verify_segments,
)
from odradek.operations.texts import plural

_PATHS = click.argument("paths", metavar="FILE_OR_DIRECTORY…", nargs=-1, required=True)
_UNCHECKED = (None, Kind.PROPERTIES, Kind.JSON)
"""Kinds of files that are not checked."""


@click.group()
def log() -> None:
    """Show, check and repair the files of a data directory.

    No node needs to run. FILE is a segment (.log), an index, a snapshot or a checkpoint. DIRECTORY
    is the directory of a partition, or a whole log directory.

    \b
    Examples:
      odradek log dump data/flights-0/00000000000000000000.log --records
      odradek log verify data
      odradek log repair data/flights-0 --execute
    """


# -- dump -----------------------------------------------------------------------------------------


@log.command()
@_PATHS
@click.option("--records", "-r", is_flag=True, help="Also show the records of batches.")
@click.option("--limit", "-n", type=click.IntRange(1), help="Maximum number of lines per file.")
@json_lines_option
def dump(paths: tuple[str, ...], records: bool, limit: int | None, as_json: bool) -> None:
    """Show the content of files.

    Records of __cluster_metadata, __consumer_offsets, __transaction_state and __share_group_state
    are decoded. With --json, every object names its file.

    \b
    Examples:
      odradek log dump data/flights-0
      odradek log dump data/__consumer_offsets-7 --records
      odradek log dump data/__cluster_metadata-0 --records --json | jq .data
    """
    damaged = 0
    for path in _files(paths):
        kind = kind_of(path)
        if not as_json:
            click.echo(styled(f"{path}  ({'?' if kind is None else kind.value})", bold=True))
        try:
            _dump(path, records, limit, as_json)
        except DamagedFile as error:
            damaged += 1
            if as_json:
                click.echo(json.dumps({"file": path, "problem": str(error)}, ensure_ascii=False))
            else:
                click.echo(f"  {styled('PROBLEM', fg='red', bold=True)}: {error}")
    if damaged:
        click.get_current_context().exit(1)


def _dump(path: str, records: bool, limit: int | None, as_json: bool) -> None:
    with _readable(path):
        for number, document in enumerate(
            documents(OsFileSystem(), path, with_records=records), start=1
        ):
            if limit is not None and number > limit:
                if not as_json:
                    click.echo("  …")
                return
            if as_json:
                click.echo(json.dumps({"file": path, **document}, ensure_ascii=False))
            else:
                click.echo(line_of(document))


def _files(paths: tuple[str, ...]) -> Iterator[str]:
    for path in paths:
        with _readable(path):
            found = files_in(OsFileSystem(), path)
        if not found:
            note(f"{path} has no log files")
        yield from found


@contextmanager
def _readable(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise click.ClickException(f"{path}: {reason}") from error


# -- verify ---------------------------------------------------------------------------------------


@log.command()
@_PATHS
@json_option
def verify(paths: tuple[str, ...], as_json: bool) -> None:
    """Check files, and check that they agree with each other.

    In segments the command checks checksums, offsets and the number of records of each batch. An
    index must agree with its segment. A snapshot must have the right checksum. The exit code is 1
    if a check fails, or if there is nothing to check. Files that a running node writes to may look
    truncated.

    \b
    Examples:
      odradek log verify data
      odradek log verify data/flights-0 --json
    """
    files = sum(kind_of(path) not in _UNCHECKED for path in _files(paths))
    problems: list[Problem] = []
    for path in paths:
        with _readable(path):
            problems += _problems(path)
    if as_json:
        told = [_as_json(each) for each in problems]
        print_json({"ok": bool(files) and not problems, "files": files, "problems": told})
    for problem in () if as_json else problems:
        click.echo(_line(problem))
    if problems:
        note(f"{plural(len(problems), 'problem')} found. See: odradek log repair --help")
        click.get_current_context().exit(1)
    _end_well(files, "file", as_json)


def _end_well(count: int, thing: str, as_json: bool) -> None:
    """Print how many items are valid.

    Raises:
        ClickException: there are no items.
    """
    if not count:
        raise click.ClickException(f"There is no {thing} to check.")
    if not as_json:
        note(f"No problems in {plural(count, thing)}.")


def _problems(path: str) -> Iterator[Problem]:
    file_system = OsFileSystem()
    if Path(path).is_dir():
        for directory in partition_directories(file_system, path):
            yield from verify_directory(file_system, directory)
        if not is_partition_directory(file_system, path):
            for entry in sorted(Path(path).iterdir()):
                if entry.is_file():
                    yield from verify_file(file_system, str(entry))
        return
    kind = kind_of(path)
    if kind is None:
        raise click.ClickException(f"{path} does not have the name of a log file")
    if kind in (Kind.SEGMENT, Kind.OFFSET_INDEX, Kind.TIME_INDEX, Kind.TRANSACTION_INDEX):
        directory, base = segment_of(path)
        for seen in verify_segments(file_system, directory, [base]):
            yield from (
                problem for problem in seen.problems if kind is Kind.SEGMENT or problem.path == path
            )
    else:
        yield from verify_file(file_system, path)


def _line(problem: Problem) -> str:
    place = "" if problem.position is None else f", byte {problem.position}"
    return f"{problem.path}{place}: {problem.text}"


def _as_json(problem: Problem) -> dict[str, object]:
    return {"file": problem.path, "position": problem.position, "problem": problem.text}


# -- repair ---------------------------------------------------------------------------------------


@log.command()
@click.argument("paths", metavar="DIRECTORY…", nargs=-1, required=True)
@click.option("--execute", is_flag=True, help="Do the repairs. By default they are only shown.")
@json_option
def repair(paths: tuple[str, ...], execute: bool, as_json: bool) -> None:
    """Repair files: truncate incomplete ends and rebuild indexes.

    Only the last segment is truncated, and only if nothing valid follows its incomplete end. Damage
    in the middle of a log is reported but not changed. The command fails while a node uses the log
    directory. The exit code is 1 if damage remains that cannot be repaired.

    \b
    Examples:
      odradek log repair data/flights-0
      odradek log repair data --execute
    """
    partitions: list[str] = []
    repairs: list[Repair] = []
    for path in paths:
        if not Path(path).is_dir():
            raise click.ClickException(f"{path} is not a directory")
        with _readable(path):
            partitions += partition_directories(OsFileSystem(), path)
    for directory in partitions:
        with _readable(directory):
            repairs += _repair(directory, execute)
    if as_json:
        print_json(
            {
                "executed": execute,
                "partitions": len(partitions),
                "repairs": [
                    {**_as_json(each.problem), "repair": each.text, "possible": _can(each)}
                    for each in repairs
                ],
            }
        )
    for each in () if as_json else repairs:
        click.echo(f"{_line(each.problem)}\n  -> {each.text}")
    possible = sum(map(_can, repairs))
    if not repairs:
        _end_well(len(partitions), "partition", as_json)
    elif possible and not execute:
        note(f"Nothing was changed. Add --execute to do {plural(possible, 'repair')}.")
    if possible < len(repairs):
        click.get_current_context().exit(1)


def _can(repair: Repair) -> bool:
    return repair.perform is not None


def _repair(directory: str, execute: bool) -> Iterator[Repair]:
    file_system = OsFileSystem()
    try:
        lock = lock_directory(file_system, directory)
    except DirectoryInUse as error:
        raise click.ClickException(str(error)) from error
    try:
        for found in find_repairs(file_system, directory):
            if execute and found.perform is not None:
                found.perform()
            yield found
    finally:
        if lock is not None:
            file_system.close(lock)
