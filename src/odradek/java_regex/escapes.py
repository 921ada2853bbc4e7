r"""Escapes that are one character: `\0101`, `\x41`, `\x{41}`, `\u0041`, `\N{…}`, `\cA`, `\n`, `\.`."""

from __future__ import annotations

import unicodedata

from odradek.java_regex.reader import Reader

_DIGITS = "0123456789"
_OCTAL = "01234567"
_HEX = "0123456789abcdefABCDEF"
_ALPHA = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_CONTROLS = {"a": "\a", "e": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


def literal_escape(reader: Reader, letter: str) -> str:
    """Return the character of an escape. The position is after the letter."""
    if letter in _CONTROLS:
        return _CONTROLS[letter]
    match letter:
        case "0":
            return _octal(reader)
        case "x":
            return _hexadecimal(reader)
        case "u":
            return _unicode(reader)
        case "N":
            return _named_character(reader)
        case "c":
            if reader.is_at_end():
                raise reader.error("Illegal control escape sequence")
            return chr(ord(reader.read()) ^ 64)
        case _:
            pass
    if letter in _ALPHA or letter in "123456789" or reader.position > len(reader.text):
        raise reader.error(f"Illegal/unsupported escape sequence \\{letter}")
    return letter


def _octal(reader: Reader) -> str:
    first = reader.read()
    if first not in _OCTAL:
        raise reader.error("Illegal octal escape sequence")
    digits = first
    while len(digits) < (3 if first in "0123" else 2):
        before = reader.position
        digit = reader.read()
        if digit not in _OCTAL:
            reader.go_to(before)
            break
        digits += digit
    return chr(int(digits, 8))


def _hexadecimal(reader: Reader) -> str:
    first = reader.read()
    digits = ""
    if first in _HEX:
        second = reader.read()
        digits = first + second if second in _HEX else ""
    elif first == "{" and reader.peek() in _HEX:
        while (character := reader.read()) in _HEX:
            digits += character
        if character != "}":
            raise reader.error("Unclosed hexadecimal escape sequence")
        if int(digits, 16) > 0x10FFFF:
            raise reader.error("Hexadecimal codepoint is too big")
    if not digits:
        raise reader.error("Illegal hexadecimal escape sequence")
    return chr(int(digits, 16))


def _unicode(reader: Reader) -> str:
    number = _four_digits(reader)
    before = reader.position
    if 0xD800 <= number < 0xDC00 and reader.read() == "\\" and reader.read() == "u":
        low = _four_digits(reader)
        if 0xDC00 <= low < 0xE000:
            return chr(0x10000 + ((number & 0x3FF) << 10) + (low & 0x3FF))
    reader.go_to(before)
    return chr(number)


def _four_digits(reader: Reader) -> int:
    digits = "".join(reader.read() for _ in range(4))
    if any(each not in _HEX for each in digits):
        raise reader.error("Illegal Unicode escape sequence")
    return int(digits, 16)


def _named_character(reader: Reader) -> str:
    end = reader.text.find("}", reader.position)
    if reader.at(reader.position) != "{" or end < 0:
        raise reader.error("Illegal character name escape sequence")
    name = reader.text[reader.position + 1 : end].strip().upper()
    reader.go_to(end + 1)
    try:
        found = unicodedata.lookup(name)
    except KeyError:
        found = ""
    if len(found) != 1 or unicodedata.name(found, "") != name:
        raise reader.error(f"Unknown character name [{name}]")
    return found
