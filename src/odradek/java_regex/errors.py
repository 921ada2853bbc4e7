"""What can go wrong with a regular expression."""

from __future__ import annotations


class PatternError(ValueError):
    """A pattern or a replacement is malformed, or has a construct that is not supported."""


class MatchRefused(Exception):
    """Whether a text matches was not found out. The message has the reason."""
