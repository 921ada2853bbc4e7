"""Patterns of Java's SimpleDateFormat, in UTC: `yyyy-MM-dd'T'HH:mm:ss.SSSX`.

The letters y M d H k h K m s S a E Z X z D are supported. Names of months and days are English.
"""

from __future__ import annotations

import calendar
import datetime
import re
from dataclasses import dataclass

from odradek.core.connect.errors import ConfigError, DataError

_LETTERS = "yMdHkhKmsSaEZXzD"
_TOKEN = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']+")
_MONTHS = list(calendar.month_name)
_DAYS = list(calendar.day_name)
_ZONE = re.compile(r"Z|UTC|GMT|(?:GMT|UTC)?([+-])(\d{1,2}):?(\d{2})?")


@dataclass(frozen=True, slots=True)
class _Token:
    letter: str
    """The empty text for literal text."""
    text: str

    @property
    def width(self) -> int:
        return len(self.text)


class SimpleDate:
    """A pattern."""

    def __init__(self, pattern: str) -> None:
        """Parse a pattern.

        Raises:
            ConfigError: it has another letter, or a quote without an end.
        """
        self.pattern = pattern
        self._tokens: list[_Token] = []
        position = 0
        while position < len(pattern):
            found = _TOKEN.match(pattern, position)
            if found is None:
                raise ConfigError(f"Unterminated quote in the pattern {pattern}")
            position = found.end()
            letter = found.group(2)
            if letter is None:
                quoted = found.group(1)
                text = found.group() if quoted is None else (quoted.replace("''", "'") or "'")
                self._tokens.append(_Token("", text))
            elif letter in _LETTERS:
                self._tokens.append(_Token(letter, found.group()))
            else:
                raise ConfigError(f"Illegal pattern character '{letter}' in {pattern}")

    # -- to text --------------------------------------------------------------------------------

    def format(self, moment: datetime.datetime) -> str:
        """Return the text of a time with the zone UTC."""
        return "".join(
            each.text if not each.letter else _formatted(each, moment) for each in self._tokens
        )

    # -- from text ------------------------------------------------------------------------------

    def parse(self, text: str) -> datetime.datetime:
        """Return the time of a text. What follows the pattern is ignored, as in Java.

        Raises:
            DataError: the text does not match the pattern.
        """
        fields: dict[str, int] = {}
        position = 0
        for index, token in enumerate(self._tokens):
            following = self._tokens[index + 1] if index + 1 < len(self._tokens) else None
            is_adjacent = following is not None and following.letter in "yMdHkhKmsSD"
            if following is not None and not following.letter:
                is_adjacent = False
            position = self._parse(token, text, position, fields, is_adjacent=is_adjacent)
        try:
            return _moment(fields)
        except (ValueError, OverflowError):
            raise self._error(text) from None

    def _error(self, text: str) -> DataError:
        return DataError(
            f"Could not parse timestamp: value ({text}) does not match pattern ({self.pattern})"
        )

    def _parse(
        self, token: _Token, text: str, at: int, fields: dict[str, int], *, is_adjacent: bool
    ) -> int:
        if not token.letter:
            if not text.startswith(token.text, at):
                raise self._error(text)
            return at + len(token.text)
        if token.letter in "ZXz":
            return self._zone(text, at, fields)
        if token.letter in "aE" or (token.letter == "M" and token.width > 2):
            return self._name(token, text, at, fields)
        limit = token.width if is_adjacent else 18
        found = re.compile(rf"-?\d{{1,{limit}}}").match(text, at)
        if found is None:
            raise self._error(text)
        number = int(found.group())
        if token.letter == "y" and token.width <= 2 and len(found.group()) == 2:
            number += 2000 if number < 46 else 1900
        fields[token.letter] = number
        return found.end()

    def _zone(self, text: str, at: int, fields: dict[str, int]) -> int:
        found = _ZONE.match(text, at)
        if found is None:
            raise self._error(text)
        if found.group(1):
            minutes = int(found.group(2)) * 60 + int(found.group(3) or 0)
            fields["Z"] = minutes if found.group(1) == "+" else -minutes
        return found.end()

    def _name(self, token: _Token, text: str, at: int, fields: dict[str, int]) -> int:
        names = {"a": ["AM", "PM"], "E": _DAYS, "M": _MONTHS}[token.letter]
        for number, name in enumerate(names):
            for each in (name, name[:3]):
                if each and text[at : at + len(each)].lower() == each.lower():
                    fields["a" if token.letter == "a" else token.letter] = number
                    return at + len(each)
        raise self._error(text)


def _formatted(token: _Token, moment: datetime.datetime) -> str:
    width = token.width
    match token.letter:
        case "y":
            return f"{moment.year % 100:02}" if width == 2 else f"{moment.year:0{width}}"
        case "M" if width >= 3:
            name = _MONTHS[moment.month]
            return name if width > 3 else name[:3]
        case "E":
            name = _DAYS[moment.weekday()]
            return name if width > 3 else name[:3]
        case "a":
            return "AM" if moment.hour < 12 else "PM"
        case "Z":
            return "+0000"
        case "X":
            return "Z"
        case "z":
            return "UTC" if width < 4 else "Coordinated Universal Time"
        case letter:
            numbers = {
                "M": moment.month,
                "d": moment.day,
                "H": moment.hour,
                "k": moment.hour or 24,
                "h": moment.hour % 12 or 12,
                "K": moment.hour % 12,
                "m": moment.minute,
                "s": moment.second,
                "S": moment.microsecond // 1000,
                "D": moment.timetuple().tm_yday,
            }
            return f"{numbers[letter]:0{width}}"


def _moment(fields: dict[str, int]) -> datetime.datetime:
    """Return the time of fields. Like Java, let numbers that are too large run over."""
    year, month = fields.get("y", 1970), fields.get("M", 1) - 1
    start = datetime.datetime(year + month // 12, month % 12 + 1, 1, tzinfo=datetime.UTC)
    days = fields["D"] - 1 if "D" in fields and "d" not in fields else fields.get("d", 1) - 1
    hours = fields.get("H", fields.get("k", 0) % 24)
    if "h" in fields or "K" in fields:
        hours = fields.get("h", fields.get("K", 0)) % 12 + 12 * fields.get("a", 0)
    return start + datetime.timedelta(
        days=days,
        hours=hours,
        minutes=fields.get("m", 0) - fields.get("Z", 0),
        seconds=fields.get("s", 0),
        milliseconds=fields.get("S", 0),
    )
