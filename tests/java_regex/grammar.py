"""Random patterns of Java's dialect, and texts that some of them match."""

from __future__ import annotations

import random

LETTERS = "abcABkK1_ ,=.-@ßéÉσΣЛл\n\r\u2028\u0301\u00a0ſKıİ"
_LITERALS = (
    *"aaabbbcABk1_,=@ßéЛ",
    "\\.",
    "\\-",
    "\\x41",
    "\\u0062",
    "\\t",
    "\\Q.*\\E",
    "\\0101",
    "ab",
    "-",
)
_CLASSES = (
    *(r"\w", r"\d", r"\s", r"\h", r"\v", r"\W", r"\D", r"\S", r"\H", r"\V", ".", "."),
    *(
        r"\p{L}",
        r"\p{Lu}",
        r"\P{L}",
        r"\pL",
        r"\p{Alpha}",
        r"\p{Lower}",
        r"\p{Upper}",
        r"\p{Punct}",
    ),
    *(r"\p{IsLatin}", r"\p{InCyrillic}", r"\p{IsAlphabetic}", r"\p{javaLowerCase}", r"\p{ASCII}"),
    *(r"\p{script=Greek}", r"\p{blk=BasicLatin}", r"\p{gc=Ll}", r"\p{IsLowercase}", r"\p{Space}"),
    *(r"\p{javaWhitespace}", r"\p{IsPunctuation}", r"\p{Alnum}", r"\p{IsUppercase}", r"\p{Digit}"),
)
_ASSERTIONS = ("^", "$", r"\b", r"\B", r"\A", r"\z", r"\Z", r"\G")
_QUANTIFIERS = ("*", "+", "?", "{2}", "{1,2}", "{0,1}", "{2,}", "{0}", "{0,2}")


class Grammar:
    """Makes patterns. The same chances give the same patterns."""

    def __init__(self, chance: random.Random, depth: int = 3) -> None:
        self._chance = chance
        self._depth = depth
        self.groups = 0
        self.names: list[str] = []

    def pattern(self) -> str:
        """Return a pattern."""
        flags = self._chance.choice(
            ("", "", "", "(?i)", "(?iu)", "(?s)", "(?m)", "(?d)", "(?U)", "(?x)")
        )
        return flags + self._choice(self._depth)

    def text(self) -> str:
        """Return a text."""
        size = self._chance.choice((0, 1, 2, 3, 4, 5, 6, 8))
        letters = self._chance.choice(("ab", "abc", "abcAB1,=", LETTERS))
        return "".join(self._chance.choices(letters, k=size))

    def replacement(self) -> str:
        """Return a replacement that shows all groups."""
        parts = ["<$0"]
        parts += [f"|${number}" for number in range(1, self.groups + 1)]
        if self.names and self._chance.random() < 0.5:
            parts.append(f"|${{{self._chance.choice(self.names)}}}")
        if self._chance.random() < 0.1:
            parts.append(self._chance.choice(("\\$1", "$9", "$", "\\\\", "$12", "${a", "\\", "$x")))
        return "".join(parts) + ">"

    def _choice(self, depth: int) -> str:
        count = self._chance.choice((1, 1, 1, 2, 3)) if depth else 1
        return "|".join(self._sequence(depth) for _ in range(count))

    def _sequence(self, depth: int) -> str:
        count = self._chance.choice((0, 1, 1, 2, 2, 3))
        return "".join(self._part(depth) for _ in range(count))

    def _part(self, depth: int) -> str:
        kind = self._chance.random()
        if kind < 0.35 and depth:
            return self._group(depth - 1)
        if kind < 0.43:
            return self._chance.choice(_ASSERTIONS)
        if kind < 0.48 and self.groups:
            return self._reference()
        if kind < 0.50:
            return self._chance.choice((r"\R", r"\X", "[^,]*", "(?i)", "(?-i)", "(?u)"))
        return self._atom(depth) + self._quantifier()

    def _atom(self, depth: int) -> str:
        kind = self._chance.random()
        if kind < 0.25:
            return self._class(2)
        return self._chance.choice(_CLASSES if kind < 0.45 else _LITERALS)

    def _reference(self) -> str:
        if self.names and self._chance.random() < 0.3:
            return f"\\k<{self._chance.choice(self.names)}>"
        return f"\\{self._chance.randint(1, self.groups)}" + self._quantifier()

    def _group(self, depth: int) -> str:
        kind = self._chance.random()
        if kind < 0.45:
            self.groups += 1
            head = "("
        elif kind < 0.55:
            self.groups += 1
            name = f"n{self.groups}"
            head = f"(?<{name}>"
            body = self._choice(depth)
            self.names.append(name)
            return f"{head}{body}){self._quantifier()}"
        else:
            head = self._chance.choice(
                ("(?:", "(?:", "(?:", "(?i:", "(?=", "(?!", "(?>", "(?<=", "(?<!", "(?s-i:")
            )
        return f"{head}{self._choice(depth)}){self._quantifier()}"

    def _quantifier(self) -> str:
        if self._chance.random() < 0.55:
            return ""
        return self._chance.choice(_QUANTIFIERS) + self._chance.choice(("", "", "", "?", "+"))

    def _class(self, depth: int) -> str:
        inner = "".join(self._element(depth) for _ in range(self._chance.choice((1, 2, 2, 3))))
        return f"[{self._chance.choice(('', '', '^'))}{inner}]"

    def _element(self, depth: int) -> str:
        kind = self._chance.random()
        if kind < 0.15 and depth:
            return self._class(depth - 1)
        if kind < 0.3 and depth:
            return "&&" + self._element(depth - 1)
        if kind < 0.45:
            return self._chance.choice(
                ("a-c", "A-Z", "a-z", "0-9", "à-ü", "а-я", "k-s", "--9", r"\x41-\x43")
            )
        if kind < 0.6:
            return self._chance.choice(_CLASSES).replace(".", "x")
        return self._chance.choice((*"abckKsiI,=ßéÿ&-^$*.", r"\]", r"\\", r"\-", r"\Qa-c\E"))


_TOKENS = (
    *r"abAB1 0-^$.|()[]{}*+?\,:=!<>&#nxuQEdwsbBGzZpPLkcR",
    *(
        "(?",
        "(?:",
        "(?<",
        "(?<n>",
        "(?=",
        "(?<=",
        "(?!",
        "(?>",
        "(?i)",
        "(?x)",
        "(?-x)",
        "(?U)",
        "(?m)",
    ),
    *(
        "(?x:",
        "[^",
        "[[",
        "&&",
        "]]",
        r"\Q",
        r"\E",
        r"\p{",
        r"\p{L}",
        r"\pL",
        "{1,2}",
        "{2}",
        "{,",
        "{1",
    ),
    *(
        r"\x41",
        r"\x{4",
        r"\u00",
        r"\0",
        r"\01",
        r"\1",
        r"\2",
        r"\k<n>",
        r"\d",
        r"\w",
        r"\b",
        r"\B",
        r"\R",
    ),
    *(
        r"\X",
        r"\h",
        r"\v",
        r"\N{",
        r"\c",
        r"\t",
        "a-z",
        "--",
        "\n",
        "(a)",
        "(b)",
        "*?",
        "++",
        r"\\",
        r"\]",
    ),
)


def tokens(seed: int) -> tuple[str, str, str]:
    """Return a row of tokens, which is often no pattern, a replacement and a text."""
    chance = random.Random(seed)
    pattern = "".join(chance.choices(_TOKENS, k=chance.randint(1, 9)))
    text = "".join(chance.choices("abAB1 -^.()[]\\,#\n", k=chance.randint(0, 5)))
    return pattern, chance.choice(("<$0>", "<$0>", "<$0>", "$1", "${n}")), text
