"""Parses patterns (see `odradek.java_regex.nodes`)."""

from __future__ import annotations

from collections.abc import Callable

from odradek.java_regex import assertions
from odradek.java_regex.characters import (
    LINE_TERMINATORS,
    CharacterSet,
    folded,
    folded_ascii,
    predefined,
    single,
    span,
    union,
    with_property,
)
from odradek.java_regex.escapes import literal_escape
from odradek.java_regex.nodes import (
    UNLIMITED,
    Assertion,
    Atomic,
    BackReference,
    Character,
    Choice,
    Grapheme,
    Greed,
    Group,
    LineEnding,
    LookAhead,
    LookBehind,
    Node,
    Repeat,
    Sequence,
)
from odradek.java_regex.reader import END, Reader
from odradek.java_regex.study import study

_FLAGS = frozenset("imsduxU")
_DIGITS = "0123456789"
_ALPHA = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_NESTING_MAX = 100
"""Groups and classes may be nested so deep."""


class Parser:
    """Parses one pattern."""

    def __init__(self, pattern: str) -> None:
        self._reader = Reader(pattern)
        self._flags: frozenset[str] = frozenset()
        self._depth = 0
        self.has_references = False
        self.groups = 0
        """The number of groups so far."""
        self.names: dict[str, int] = {}
        """The numbers of the groups with names."""

    def parse(self) -> Node:
        """Return the parts of the pattern.

        Raises:
            PatternError: it is malformed or not supported.
        """
        node = self._choice()
        if self._reader.peek() == ")" and not self._reader.is_at_end():
            raise self._reader.error("Unmatched closing ')'")
        if self._reader.position != len(self._reader.text):
            raise self._reader.error("The pattern ends too early")
        return node

    # -- flags --------------------------------------------------------------------------------------

    @property
    def _ignores_case(self) -> bool:
        return "i" in self._flags

    @property
    def _is_unicode_case(self) -> bool:
        return "u" in self._flags or "U" in self._flags

    @property
    def _is_unicode(self) -> bool:
        return "U" in self._flags

    def _set_flags(self, flags: frozenset[str]) -> None:
        self._flags = flags
        self._reader.set_flags(skips_comments="x" in flags, unix_lines="d" in flags)

    # -- sequences ------------------------------------------------------------------------------------

    def _choice(self) -> Node:
        alternatives = [self._sequence()]
        while self._reader.peek() == "|":
            self._reader.advance()
            alternatives.append(self._sequence())
        return alternatives[0] if len(alternatives) == 1 else Choice(tuple(alternatives))

    def _sequence(self) -> Sequence:
        parts: list[Node] = []
        reader = self._reader
        while True:
            character = reader.peek()
            if character in "|)" or (character == END and reader.is_at_end()):
                return Sequence(tuple(parts))
            if character == "(":
                group = self._group()
                if group is not None:
                    parts.append(group)
                continue
            if character in "?*+":
                raise reader.error(f"Dangling meta character '{character}'")
            # As in Java, braces without anything before them repeat nothing.
            node = Sequence(()) if character == "{" else self._atom(character)
            parts.append(self._quantified(node))

    def _atom(self, character: str) -> Node:
        reader = self._reader
        match character:
            case "[":
                return Character(self._nested_class())
            case "\\":
                return self._escape()
            case "^":
                reader.advance()
                return Assertion(self._caret())
            case "$":
                reader.advance()
                return Assertion(self._dollar(is_multiline="m" in self._flags))
            case ".":
                reader.advance()
                return Character(self._dot())
            case _:
                pass
        reader.advance()
        return Character(self._single(character))

    def _caret(self) -> Callable[[str, int, int], bool]:
        if "m" not in self._flags:
            return assertions.is_begin
        return assertions.is_unix_line_begin if "d" in self._flags else assertions.is_line_begin

    def _dollar(self, *, is_multiline: bool) -> Callable[[str, int, int], bool]:
        if "d" in self._flags:
            return assertions.is_unix_line_end if is_multiline else assertions.is_unix_end
        return assertions.is_line_end if is_multiline else assertions.is_last_line_end

    def _dot(self) -> CharacterSet:
        if "s" in self._flags:
            return CharacterSet(lambda each: True)
        ends = "\n" if "d" in self._flags else LINE_TERMINATORS
        return CharacterSet(lambda each: each not in ends)

    def _single(self, character: str) -> CharacterSet:
        return single(character, ignores_case=self._ignores_case, is_unicode=self._is_unicode_case)

    # -- quantifiers ----------------------------------------------------------------------------------

    def _quantified(self, node: Node) -> Node:
        match self._reader.peek():
            case "?":
                least, most = 0, 1
            case "*":
                least, most = 0, UNLIMITED
            case "+":
                least, most = 1, UNLIMITED
            case "{":
                least, most = self._counts()
            case _:
                return node
        greed = Greed.GREEDY
        match self._reader.advance():
            case "?":
                greed = Greed.RELUCTANT
            case "+":
                greed = Greed.POSSESSIVE
            case _:
                pass
        if greed is not Greed.GREEDY:
            self._reader.advance()
        return Repeat(node, least, most, greed)

    def _counts(self) -> tuple[int, int]:
        """Read `{n}`, `{n,}` or `{n,m}`. The position is then at the closing brace."""
        reader = self._reader
        reader.move(1)
        if reader.at(reader.position) not in _DIGITS:
            raise reader.error("Illegal repetition")
        least, character = self._number()
        most = least
        if character == ",":
            if reader.peek() == "}":
                return least, UNLIMITED
            most, character = self._number()
        if character != "}":
            raise reader.error("Unclosed counted closure")
        if most < least or max(most, least) > UNLIMITED:
            raise reader.error("Illegal repetition range")
        reader.move(-1)
        return least, most

    def _number(self) -> tuple[int, str]:
        """Return a number, and the character after it."""
        digits = "0"
        while (character := self._reader.read()) in _DIGITS and character != "":
            digits += character
        if len(digits) > 12:
            raise self._reader.error("Illegal repetition range")
        return int(digits), character

    # -- groups -------------------------------------------------------------------------------------

    def _group(self) -> Node | None:
        """Parse a group and its quantifier. None if it only sets flags."""
        saved = self._flags
        reader = self._reader
        self._depth += 1
        if self._depth > _NESTING_MAX:
            raise reader.error("Groups are nested too deep")
        if reader.advance() == "?":
            reader.move(1)
            node = self._special_group(reader.read_escaped())
            if node is None:
                self._depth -= 1
                return None
        else:
            node = self._capturing()
        if reader.read() != ")":
            raise reader.error("Unclosed group")
        self._depth -= 1
        self._set_flags(saved)
        return self._quantified(node)

    def _capturing(self, name: str | None = None) -> Node:
        self.groups += 1
        number = self.groups
        if name is not None:
            self.names[name] = number
        return Group(self._choice(), number)

    def _special_group(self, character: str) -> Node | None:
        match character:
            case ":":
                return Group(self._choice(), None)
            case "=" | "!":
                return LookAhead(self._choice(), character == "!")
            case ">":
                return Atomic(self._choice())
            case "<":
                return self._after_less_than()
            case "$" | "@":
                raise self._reader.error("Unknown group type")
            case _:
                pass
        self._reader.move(-1)
        self._read_flags()
        match self._reader.read():
            case ")":
                return None
            case ":":
                return Group(self._choice(), None)
            case _:
                pass
        raise self._reader.error("Unknown inline modifier")

    def _after_less_than(self) -> Node:
        character = self._reader.read()
        if character not in "=!":
            name = self._group_name(character)
            if name in self.names:
                raise self._reader.error(f"Named capturing group <{name}> is already defined")
            return self._capturing(name)
        body = self._choice()
        lengths = study(body)
        if not lengths.has_most:
            raise self._reader.error("Look-behind group does not have an obvious maximum length")
        return LookBehind(body, character == "!", lengths.least, lengths.most)

    def _group_name(self, character: str) -> str:
        if character not in _ALPHA:
            raise self._reader.error("capturing group name does not start with a Latin letter")
        name = character
        while (character := self._reader.read()) in _ALPHA + _DIGITS:
            name += character
        if character != ">":
            raise self._reader.error("named capturing group is missing trailing '>'")
        return name

    def _read_flags(self) -> None:
        adds = True
        character = self._reader.peek()
        while True:
            if character == "c":
                raise self._reader.error("Canonical equivalence, (?c), is not supported")
            if character == "-" and adds:
                adds = False
            elif character in _FLAGS:
                flags = {character, "u"} if character == "U" else {character}
                self._set_flags(self._flags | flags if adds else self._flags - flags)
            else:
                return
            character = self._reader.advance()

    # -- escapes --------------------------------------------------------------------------------------

    def _escape(self) -> Node:
        """Parse an escape outside of a class. The position is at the backslash."""
        reader = self._reader
        letter = reader.at(reader.position + 1)
        if letter in "pP":
            return Character(self._property())
        reader.move(2)
        node = self._special_escape(letter)
        if node is not None:
            return node
        if letter in "DHSVWdhsvw":
            return Character(predefined(letter, is_unicode=self._is_unicode))
        return Character(self._single(literal_escape(self._reader, letter)))

    def _special_escape(self, letter: str) -> Node | None:
        """Return the node of an escape that is not one character, if it is one."""
        match letter:
            case "A":
                return Assertion(assertions.is_begin)
            case "z":
                return Assertion(assertions.is_end)
            case "Z":
                return Assertion(self._dollar(is_multiline=False))
            case "G":
                return Assertion(assertions.is_last_match)
            case "B":
                return Assertion(
                    assertions.word_boundary(is_unicode=self._is_unicode, wanted=False)
                )
            case "b":
                return self._boundary()
            case "R":
                return LineEnding()
            case "X":
                return Grapheme()
            case "k":
                return self._named_reference()
            case _:
                pass
        return self._reference(letter) if letter in "123456789" else None

    def _boundary(self) -> Node:
        reader = self._reader
        if reader.text.startswith("{g", reader.position):
            reader.move(2)
            if reader.read() != "}":
                raise reader.error("Illegal/unsupported escape sequence")
            return Assertion(assertions.is_grapheme_boundary)
        return Assertion(assertions.word_boundary(is_unicode=self._is_unicode, wanted=True))

    def _fold(self) -> Callable[[str], str] | None:
        if not self._ignores_case:
            return None
        return folded if self._is_unicode_case else folded_ascii

    def _reference(self, letter: str) -> Node:
        number = int(letter)
        while (digit := self._reader.peek()) in _DIGITS and self.groups >= number * 10 + int(digit):
            number = number * 10 + int(digit)
            self._reader.read()
        self.has_references = True
        return BackReference(number, self._fold())

    def _named_reference(self) -> Node:
        if self._reader.read() != "<":
            raise self._reader.error("\\k is not followed by '<' for named capturing group")
        name = self._group_name(self._reader.read())
        if name not in self.names:
            raise self._reader.error(f"named capturing group <{name}> does not exist")
        self.has_references = True
        return BackReference(self.names[name], self._fold())

    # -- classes --------------------------------------------------------------------------------------

    def _property(self) -> CharacterSet:
        r"""Parse `\p{…}`, `\P{…}`, `\pL`. The position is at the backslash."""
        reader = self._reader
        reader.move(1)
        is_negative = reader.at(reader.position) == "P"
        if reader.advance() == "{":
            reader.advance()
            end = reader.text.find("}", reader.position)
            if end < 0:
                raise reader.error("Unclosed character family")
            name = reader.text[reader.position : end]
            reader.go_to(end)
            if not name:
                raise reader.error("Empty character family")
        else:
            name = reader.at(reader.position)
        reader.read()
        found = with_property(name, ignores_case=self._ignores_case, is_unicode=self._is_unicode)
        if found is None:
            raise reader.error(f"Unknown character property name {{{name}}}")
        return ~found if is_negative else found

    def _nested_class(self, *, has_brackets: bool = True) -> CharacterSet:
        """Parse a class. Without brackets it is the right side of `&&`."""
        self._depth += 1
        if self._depth > _NESTING_MAX:
            raise self._reader.error("Classes are nested too deep")
        found = _Class(self, self._reader).parse(has_brackets=has_brackets)
        self._depth -= 1
        return found

    def nested_class(self, *, has_brackets: bool) -> CharacterSet:
        """See `_nested_class`; for `_Class`."""
        return self._nested_class(has_brackets=has_brackets)

    def class_element(self) -> tuple[CharacterSet, bool]:
        """Parse a character, range, escape or property in a class.

        Return its set, and whether it is one character of Latin-1.
        """
        reader = self._reader
        character = reader.peek()
        if character == "\\":
            letter = reader.at(reader.position + 1)
            if letter in "pP":
                return self._property(), False
            starts_range = reader.at(reader.position + 2) == "-"
            reader.move(2)
            if letter in "DHSVWdhsw" or (letter == "v" and not starts_range):
                return predefined(letter, is_unicode=self._is_unicode), False
            character = "\x0b" if letter == "v" else literal_escape(self._reader, letter)
        else:
            reader.advance()
        if reader.peek() == "-" and reader.at(reader.position + 1) not in "[]":
            return self._range(character), False
        return self._single(character), self._is_plain(character)

    def _is_plain(self, character: str) -> bool:
        special = (
            self._ignores_case and self._is_unicode_case and character in "\xff\xb5IiSsKk\xc5\xe5"
        )
        return character <= "\xff" and not special

    def _range(self, first: str) -> CharacterSet:
        reader = self._reader
        last = reader.advance()
        if last == "\\":
            letter = reader.at(reader.position + 1)
            reader.move(2)
            if letter in "DHSVWdhsw":
                raise reader.error("Illegal character range")
            last = "\x0b" if letter == "v" else literal_escape(self._reader, letter)
        else:
            reader.advance()
        if last < first:
            raise reader.error("Illegal character range")
        return span(first, last, ignores_case=self._ignores_case, is_unicode=self._is_unicode_case)


class _Class:
    """Parses what is between brackets.

    As in Java, the single characters of Latin-1 are collected in one set for the whole class. It is
    joined with the rest before each intersection and at the end, and characters that are collected
    after an intersection belong to both of its sides: `[a&&[b]&c]` contains `a`.
    """

    def __init__(self, parser: Parser, reader: Reader) -> None:
        self._parser = parser
        self._reader = reader
        self._parts: list[CharacterSet] = []
        """What the set consists of, without what was collected since the last intersection."""
        self._newest: CharacterSet | None = None
        """The newest member of the set: what `&&` without a right side intersects with."""
        self._members: list[CharacterSet] = []
        self._collected = union(self._members)
        self._has_collected = False

    def parse(self, *, has_brackets: bool) -> CharacterSet:
        """Return the set."""
        reader = self._reader
        character = reader.advance()
        is_negative = character == "^" and reader.at(reader.position - 1) == "["
        if is_negative:
            character = reader.advance()
        while True:
            if character == "[":
                self._newest = self._parser.nested_class(has_brackets=True)
                self._parts.append(self._newest)
            elif character == "&" and self._intersected():
                pass
            elif character == END and reader.is_at_end():
                raise reader.error("Unclosed character class")
            elif character == "]" and (self._parts or self._has_collected):
                if has_brackets:
                    reader.advance()
                if self._has_collected:
                    self._parts.append(self._collected)
                found = union(self._parts)
                return ~found if is_negative else found
            else:
                self._element()
            character = reader.peek()

    def _element(self) -> None:
        found, is_plain = self._parser.class_element()
        if is_plain:
            self._newest = None
            self._members.append(found)
            self._has_collected = True
        else:
            self._newest = found
            self._parts.append(found)

    def _intersected(self) -> bool:
        """Parse `&&` and its right side. False if there is only one `&`."""
        reader = self._reader
        before = reader.position
        if reader.advance() != "&":
            reader.go_to(before)
            return False
        character = reader.advance()
        rights: list[CharacterSet] = []
        while character not in "]&":
            if character != "[":
                reader.move(-1)
            part = self._parser.nested_class(has_brackets=character == "[")
            rights.append(part)
            character = reader.peek()
        if self._has_collected:
            if not self._parts:
                self._newest = self._collected
            self._parts.append(self._collected)
            self._has_collected = False
        if rights:
            self._newest = union(rights)
        elif not self._parts:
            raise reader.error("Bad class syntax")
        if self._newest is None:
            raise reader.error("Bad intersection syntax")
        self._parts = [union(self._parts) & self._newest if self._parts else self._newest]
        return True
