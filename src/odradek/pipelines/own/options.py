"""The options of own data that all pipelines have."""

from __future__ import annotations

import argparse
from pathlib import Path

from odradek.config import extras
from odradek.pipelines.arguments import seconds
from odradek.pipelines.inputs import STDIN, DamagedError, files
from odradek.pipelines.own import formats
from odradek.pipelines.own.fields import Field, Fields, lacking, named, parse_names
from odradek.pipelines.own.formats import FormatError, Wanted
from odradek.pipelines.own.topic import Following

KINDS = (formats.JSON, formats.SEPARATED, formats.PARQUET)


def add_arguments(
    parser: argparse.ArgumentParser, fields: Fields, seconds_text: str = "how long to follow"
) -> None:
    """Add the options."""
    own = parser.add_argument_group("own data", _columns_text(fields))
    own.add_argument(
        "--input",
        type=Path,
        nargs="+",
        metavar="PATH",
        help="files and directories, also compressed: JSON Lines, CSV, Parquet; - is the standard "
        "input",
    )
    own.add_argument("--topic", help="a topic that exists; its values are JSON")
    own.add_argument(
        "--follow", action="store_true", help="wait for more records of --topic, until Ctrl-C"
    )
    own.add_argument("--seconds", type=seconds, help=seconds_text)
    own.add_argument(
        "--columns",
        action="append",
        default=[],
        metavar="NAME=COLUMN,…",
        help="which columns of the data are meant, or a JSON file with them; repeatable",
    )
    own.add_argument("--format", choices=KINDS, help="the content decides by default")
    own.add_argument("--delimiter", help="of CSV; by default , ; | tab or ::, as in the first line")
    own.add_argument("--header", metavar="NAME,…", help="the columns of CSV without a header")


def _columns_text(fields: Fields) -> str:
    found = (
        f"{each.name} ({'' if each.is_required else 'optional, '}{' or '.join(each.columns)})"
        for each in fields
    )
    return f"Without --columns these columns are used: {'; '.join(found)}."


def is_given(options: argparse.Namespace) -> bool:
    """Return whether there is own data."""
    return bool(getattr(options, "input", None) or getattr(options, "topic", None))


def following(options: argparse.Namespace) -> Following | None:
    """Return how long the topic is followed; None if it is not."""
    return Following(options.seconds) if options.follow else None


def wanted(options: argparse.Namespace, default_columns: tuple[str, ...] = ()) -> Wanted:
    """Return what is said of the format."""
    header = tuple(each.strip() for each in (options.header or "").split(",") if each.strip())
    delimiter = {"tab": "\t", "\\t": "\t"}.get(options.delimiter, options.delimiter)
    return Wanted(options.format, delimiter, header, default_columns)


def check(
    options: argparse.Namespace,
    fields: Fields,
    default_columns: tuple[str, ...] = (),
    *,
    has_other_seconds: bool = False,
) -> None:
    """Check the options before anything is started.

    `has_other_seconds` says that `--seconds` also has a meaning without `--follow`.

    Raises:
        ValueError: options contradict each other, there is no file, or a column is missing.
    """
    if extras.missing(["duckdb"]):
        raise ValueError(f"the check needs DuckDB: {extras.install(extras.DEMO)}")
    if options.input and options.topic:
        raise ValueError("--input and --topic exclude each other")
    if options.follow and not options.topic:
        raise ValueError("--follow needs --topic (of files, only the pipeline logs follows them)")
    if options.seconds is not None and not (options.follow or has_other_seconds):
        raise ValueError("--seconds needs --follow")
    if not is_given(options):
        for name in ("columns", "format", "delimiter", "header"):
            if getattr(options, name):
                raise ValueError(f"--{name} needs --input or --topic")
        return
    fields = named(fields, parse_names(options.columns))
    if options.delimiter is not None:
        _check_delimiter(options.delimiter)
    if not options.input:
        return
    found = files(options.input)
    if not found and STDIN not in options.input:
        raise ValueError(f"there are no files in {', '.join(map(str, options.input))}")
    _check_columns(found, fields, wanted(options, default_columns))


def check_columns(path: Path, fields: Fields) -> None:
    """Check a file whose format its content says.

    Raises:
        ValueError: it cannot be read, or lacks a column.
    """
    if not path.is_file():
        raise ValueError(f"there is no file {path}")
    _check_columns([path], fields, Wanted())


def _check_delimiter(text: str) -> None:
    if text not in {"tab", "\\t"} and (not text or '"' in text or "\n" in text):
        raise ValueError(f"--delimiter {text!r}: give one character, tab or ::")


def _check_columns(found: list[Path], fields: Fields, said: Wanted) -> None:
    """Check the columns of files that name them. Files that cannot be read are listed later."""
    for path in found:
        try:
            columns = formats.find(path, said).columns
        except (FormatError, DamagedError, OSError):
            continue
        missing = lacking(fields, columns) if columns else []
        if missing:
            raise ValueError(_missing_text(path, columns, missing))


def _missing_text(path: Path, columns: tuple[str, ...], missing: list[Field]) -> str:
    names = ",".join(f"{each.name}=COLUMN" for each in missing)
    tried = "; ".join(f"{each.name}: {' or '.join(each.columns)}" for each in missing)
    return (
        f"{path} lacks columns ({tried}). It has {', '.join(columns)}. "
        f"Name them: --columns {names}; or --header NAME,… if its first line is no header"
    )


def columns_of(options: argparse.Namespace, fields: Fields) -> Fields:
    """Return the fields with the columns that were named."""
    return named(fields, parse_names(getattr(options, "columns", None) or []))
