"""Suggests the known name that is most similar to a wrong one."""

from __future__ import annotations

from collections.abc import Callable, Iterable

NEAR = 0.6
"""How similar a name must be to be suggested, from 0 to 1."""


def nearest(
    name: str,
    known: Iterable[str],
    shown: Callable[[str], str] = lambda each: each,
    cutoff: float = NEAR,
) -> str:
    """Return a question for the known name that is most similar to `name`, or nothing."""
    import difflib  # only errors need it

    close = difflib.get_close_matches(name, list(known), n=1, cutoff=cutoff)
    return f". Did you mean {shown(close[0])}?" if close else ""
