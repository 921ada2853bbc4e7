"""Finds the sentence in the text of an error of Spark.

An error in a Python process of Spark arrives as a text with the traceback of that process, behind the
name of a condition, and before the plan of the query and frames of the JVM. A person needs the last
line of the last traceback.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_DETAILS = re.compile(r"\n\nJVM stacktrace|\n=== Streaming Query ===|\s+SQLSTATE: \w{5}|\n\tat ")
"""What follows the message of an error: frames and states of Spark, and the plan of a query."""
_QUERY = re.compile(r"\[STREAM_FAILED\] Query \[[^]]*\] terminated with exception: ")
_TRACEBACK = "Traceback (most recent call last):\n"
_CLASS = re.compile(r"[A-Za-z_][\w.]*(?:: |$)")
"""The name of the class before the message of an error in Python."""
_FRAME = re.compile(r'  File "[^"]*", line \d+')
_MARKS = re.compile(r"[ ~^]*")
"""The line below a line of code, which marks a part of it."""
_OURS = re.compile(r"[/\\]odradek[/\\]spark[/\\]")


def sentence(text: str) -> str:
    """Return the message of an error, without what Spark adds.

    An error that code of a user has raised keeps the name of its class, and its last lines of code.
    """
    found = _last_of_traceback(text)
    if found is None:
        return _QUERY.sub("", _DETAILS.split(text, maxsplit=1)[0]).strip()
    return _CLASS.sub("", found.message, count=1) if found.is_ours else found.message + found.place


def own_sentence(text: str) -> str | None:
    """Return the message of an error that this package has raised; None for another error."""
    found = _last_of_traceback(text)
    return _CLASS.sub("", found.message, count=1) if found is not None and found.is_ours else None


class _Raised(NamedTuple):
    message: str
    is_ours: bool
    place: str
    """The last frame with its line of code, on lines of their own."""


def _last_of_traceback(text: str) -> _Raised | None:
    _, traceback, last = text.rpartition(_TRACEBACK)
    if not traceback:
        return None
    lines = last.split("\n")
    first = next((n for n, line in enumerate(lines) if line and not line.startswith(" ")), None)
    if first is None:
        return None
    message = _DETAILS.split("\n".join(lines[first:]), maxsplit=1)[0].strip()
    frames = [n for n, line in enumerate(lines[:first]) if _FRAME.match(line)]
    if not frames:
        return _Raised(message, is_ours=False, place="")
    place = [line for line in lines[frames[-1] : first] if not _MARKS.fullmatch(line)]
    is_ours = _OURS.search(place[0]) is not None
    return _Raised(message, is_ours, "".join(f"\n{line}" for line in place))
