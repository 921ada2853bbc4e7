"""Finds the sentence in the text of an error of Spark.

An error in a Python process of Spark arrives as a text with the traceback of that process, behind the
name of a condition, and before the plan of the query and frames of the JVM. A person needs the last
line of the last traceback.
"""

from __future__ import annotations

import re

_DETAILS = re.compile(r"\n\nJVM stacktrace|\n=== Streaming Query ===|\s+SQLSTATE: \w{5}|\n\tat ")
"""What follows the message of an error: frames and states of Spark, and the plan of a query."""
_QUERY = re.compile(r"\[STREAM_FAILED\] Query \[[^]]*\] terminated with exception: ")
_TRACEBACK = "Traceback (most recent call last):\n"
_CLASS = re.compile(r"[A-Za-z_][\w.]*(?:: |$)")
"""The name of the class before the message of an error in Python."""
_FRAME = re.compile(r'^  File "([^"]*)", line \d+', re.MULTILINE)
_OURS = re.compile(r"[/\\]odradek[/\\]spark[/\\]")


def sentence(text: str) -> str:
    """Return the message of an error, without what Spark adds.

    An error that code of a user has raised keeps the name of its class.
    """
    found = _last_of_traceback(text)
    if found is None:
        return _QUERY.sub("", _DETAILS.split(text, maxsplit=1)[0]).strip()
    message, is_ours = found
    return _CLASS.sub("", message, count=1) if is_ours else message


def own_sentence(text: str) -> str | None:
    """Return the message of an error that this package has raised; None for another error."""
    found = _last_of_traceback(text)
    return _CLASS.sub("", found[0], count=1) if found is not None and found[1] else None


def _last_of_traceback(text: str) -> tuple[str, bool] | None:
    """Return the message after the last traceback, and whether this package raised it."""
    _, traceback, last = text.rpartition(_TRACEBACK)
    if not traceback:
        return None
    lines = last.split("\n")
    first = next((n for n, line in enumerate(lines) if line and not line.startswith(" ")), None)
    if first is None:
        return None
    frames = _FRAME.findall("\n".join(lines[:first]))
    message = _DETAILS.split("\n".join(lines[first:]), maxsplit=1)[0].strip()
    return message, bool(frames) and _OURS.search(frames[-1]) is not None
