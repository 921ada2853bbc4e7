"""Random rules for the names of certificates and of Kerberos, and names."""

from __future__ import annotations

import random

from tests.java_regex.grammar import Grammar

REALM = "EXAMPLE.COM"
_FRAMES = (
    *("^.*CN=({}).*$", "^CN=({}),.*$", "CN=(?<n>{})(?:,.*)?", "^.*OU=({}).*$", "(?i)^cn=({}).*?$"),
    *(".*?O=(?:{}).*", "^CN=(.*?),OU=({}).*$", "{}", "(CN|OU)=({}).*", "({})|.*"),
)
_REPLACEMENTS = (
    *("$1", "$1", "$1@$2", "${n}", "user-$1", "\\$1", "$0", "$12", "$3", "$1$2$3", "x", ""),
    *("$", "a$b", "${m}", "\\/$1", "$01", "\\\\", "$9-$8", "\\$9"),
)
_WORDS = (
    "alice",
    "Bob",
    "k8s",
    "sr",
    "a,b",
    "Людина",
    "x_1",
    "ÉCOLE",
    "a b",
    "",
    "c=d",
    "O'Neil-2",
)


def certificate_case(seed: int) -> tuple[str, str]:
    """Return rules, and the name of a certificate."""
    chance = random.Random(seed)
    rules = [_certificate_rule(chance) for _ in range(chance.choice((1, 1, 2, 3)))]
    if chance.random() < 0.4:
        rules.append("DEFAULT")
    name = ",".join(
        f"{key}={chance.choice(_WORDS)}" for key in ("CN", "OU", "O", "C")[: chance.randint(1, 4)]
    )
    if chance.random() < 0.1:
        name = Grammar(chance).text()
    return chance.choice((",", ", ", " ,\n", ",,")).join(rules), name


def _certificate_rule(chance: random.Random) -> str:
    inner = _inner(chance)
    pattern = chance.choice(_FRAMES).replace("{}", inner)
    case = chance.choice(("", "", "L", "U"))
    return f"RULE:{pattern}/{chance.choice(_REPLACEMENTS)}/{case}"


def _inner(chance: random.Random) -> str:
    if chance.random() < 0.5:
        common = (
            r"[^,]+",
            r"\w+",
            r".*?",
            r"[a-z&&[^k]]+",
            r"\p{Alpha}+",
            r"\p{L}+",
            r"[\w&&[^\d_]]*+",
        )
        return chance.choice(common)
    return Grammar(chance, depth=chance.choice((0, 1, 2))).pattern()


def kerberos_case(seed: int) -> tuple[str, str, list[str]]:
    """Return a realm, a name, and rules."""
    chance = random.Random(seed)
    rules = [_kerberos_rule(chance) for _ in range(chance.choice((1, 1, 2)))]
    if chance.random() < 0.4:
        rules.append("DEFAULT")
    primary = chance.choice(("alice", "Bob", "kafka", "Людина", "a1_b", "sr"))
    instance = chance.choice(("", "", "/host.example.com", "/Admin", "/k8s"))
    return REALM, f"{primary}{instance}@{chance.choice((REALM, 'OTHER'))}", rules


def _kerberos_rule(chance: random.Random) -> str:
    count = chance.choice((1, 2))
    shape = chance.choice(
        ("$1", "$1@$0", "$1-$0", "x$1") + (("$1/$2", "$2@$1") if count == 2 else ())
    )
    rule = f"RULE:[{count}:{shape}]"
    if chance.random() < 0.5:
        match = chance.choice(
            (r"\p{L}+.*", ".*@.*", r"\w+.*", r"[a-z&&[^k]]+.*", ".*", _inner(chance))
        )
        rule += f"({match})"
    if chance.random() < 0.6:
        pattern = chance.choice(
            ("@.*", "(.*)@(.*)", "[a-z]", r"(\w)(\w*).*", "(?<n>.*)@.*", _inner(chance))
        )
        replacement = chance.choice(_REPLACEMENTS).replace("\\/", "")
        rule += f"s/{pattern}/{replacement}/{chance.choice(('', 'g'))}"
    return rule + chance.choice(("", "", "/L", "/U"))
