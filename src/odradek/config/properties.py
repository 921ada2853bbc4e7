"""Reads and writes Java's .properties files as `java.util.Properties` does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from odradek.config.checks import ConfigurationError

_BLANK = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_IN_VALUES = {"\\": "\\\\", **{each: f"\\{letter}" for letter, each in _ESCAPES.items()}}
_IN_NAMES = {**_IN_VALUES, **{each: f"\\{each}" for each in " =:#!"}}
"""How characters are written. Others that are not printable ASCII are backslash-u escapes."""


def parse_properties(data: bytes) -> dict[str, str]:
    """Parse names and values. The last value of a repeated name applies.

    The bytes are ISO 8859-1, as in Java. Other characters are written as backslash-u escapes.

    Raises:
        ConfigurationError: an escape is malformed.
    """
    result: dict[str, str] = {}
    for number, line in _logical_lines(data.decode("iso-8859-1")):
        key, value = _split(line)
        try:
            result[_unescape(key)] = _unescape(value)
        except ValueError:
            # The value may be a secret.
            raise ConfigurationError(
                f"line {number}: malformed \\u escape in {key}; write a backslash as \\\\"
            ) from None
    return result


def format_properties(settings: Mapping[str, str]) -> bytes:
    """Return the contents of a file with these names and values, one on each line."""
    lines = []
    for name, value in settings.items():
        escaped = _escape(value, _IN_VALUES)
        blank = "\\" if escaped.startswith(" ") else ""
        lines.append(f"{_escape(name, _IN_NAMES)}={blank}{escaped}\n")
    return "".join(lines).encode("ascii")


def _escape(text: str, known: Mapping[str, str]) -> str:
    return "".join(known.get(each) or _escape_character(each) for each in text)


def _escape_character(character: str) -> str:
    if " " <= character <= "~":
        return character
    units = character.encode("utf-16-be")  # two of them if the character needs surrogates
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield logical lines with their numbers, without blank lines and comments."""
    pending: str | None = None
    begun = 0
    for number, raw in enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), 1):
        line = raw.lstrip(_BLANK)
        if pending is None:
            if not line or line[0] in "#!":
                continue
            pending, begun = "", number
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            pending += line[:-1]
            continue
        yield begun, pending + line
        pending = None
    if pending:
        yield begun, pending


def _split(line: str) -> tuple[str, str]:
    """Split into name and value, still escaped, at the first unescaped `=`, `:` or blank."""
    end = 0
    while end < len(line) and line[end] not in "=:" + _BLANK:
        end += 2 if line[end] == "\\" else 1
    rest = line[end:].lstrip(_BLANK)
    if rest[:1] in {"=", ":"}:
        rest = rest[1:].lstrip(_BLANK)
    return line[:end], rest


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    out: list[str] = []
    at = 0
    while at < len(text):
        character = text[at]
        at += 1
        if character != "\\" or at == len(text):
            out.append(character)
            continue
        escaped = text[at]
        at += 1
        if escaped == "u":
            digits = text[at : at + 4]
            if len(digits) != 4:
                raise ValueError(digits)
            out.append(chr(int(digits, 16)))
            at += 4
        else:
            out.append(_ESCAPES.get(escaped, escaped))
    # Two escapes may be the surrogates of one character.
    return "".join(out).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
