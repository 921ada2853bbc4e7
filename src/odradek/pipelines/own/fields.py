"""The columns that a pipeline needs, and how the columns of the data are named."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

TEXT, TIME, INTEGER, NUMBER, DECIMAL = "text", "time", "integer", "number", "decimal"
"""INTEGER has 32 bits, NUMBER is a double, and DECIMAL has 18 digits, 4 of them after the point."""


@dataclass(frozen=True, slots=True)
class Field:
    """A column that a pipeline needs.

    `columns` are the columns of the data that may have it: the first one that is not null counts. A
    dot leads into an object of JSON.
    """

    name: str
    kind: str
    columns: tuple[str, ...]
    is_required: bool = True
    values: tuple[str, ...] = ()
    """If there are any, all other values are as null."""


Fields = Sequence[Field]


def named(fields: Fields, names: Mapping[str, str]) -> list[Field]:
    """Return the fields with the columns that a person has named.

    Raises:
        ValueError: there is no such field.
    """
    known = [each.name for each in fields]
    for name in names:
        if name not in known:
            raise ValueError(f"--columns names {name!r}: there are {', '.join(known)}")
    return [
        replace(each, columns=(names[each.name],)) if each.name in names else each
        for each in fields
    ]


def parse_names(texts: Iterable[str]) -> dict[str, str]:
    """Parse `visitor=uid,action=kind`, or the path of a JSON file with an object of these.

    Raises:
        ValueError: a text is neither.
    """
    names: dict[str, str] = {}
    for text in texts:
        names |= _pairs(text) if "=" in text else _file(Path(text))
    return names


def _pairs(text: str) -> dict[str, str]:
    pairs = {}
    for part in text.split(","):
        name, _, column = (each.strip() for each in part.partition("="))
        if not name or not column:
            raise ValueError(f"--columns {text!r}: write NAME=COLUMN,NAME=COLUMN")
        pairs[name] = column
    return pairs


def _file(path: Path) -> dict[str, str]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(
            f"--columns {str(path)!r} is neither NAME=COLUMN nor a file that can be read: "
            f"{error.strerror}"
        ) from None
    except ValueError as error:
        raise ValueError(f"{path} is no JSON: {error}") from None
    if not isinstance(found, dict) or not all(isinstance(each, str) for each in found.values()):
        raise ValueError(f'{path} must have an object like {{"visitor": "user_id"}}')
    return found


def lacking(fields: Fields, columns: Iterable[str]) -> list[Field]:
    """Return the required fields for which there is no column."""
    tops = {each.partition(".")[0] for each in columns} | set(columns)
    return [
        each
        for each in fields
        if each.is_required and not any(one.partition(".")[0] in tops for one in each.columns)
    ]
