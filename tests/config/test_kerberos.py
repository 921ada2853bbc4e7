"""The settings of GSSAPI, and the rules that map names of Kerberos to users."""

from __future__ import annotations

import random
import sys

import pytest
from tests.support.run_seed import seeds

from odradek.config.checks import ConfigurationError
from odradek.config.jaas import parse_login_module
from odradek.config.kerberos import KerberosLogin, kerberos_login
from odradek.config.kerberos_names import KerberosName, NameRules
from odradek.config.load import load
from odradek.model.principal import NoUser

REALM = "EXAMPLE.COM"
MODULE = "com.sun.security.auth.module.Krb5LoginModule"
JAAS = f'{MODULE} required useKeyTab=true storeKey=true keyTab="/k" principal="kafka/h@{REALM}";'
SETTINGS = {
    "listeners": "PLAINTEXT://:9092,OUT://:9093",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OUT:SASL_PLAINTEXT",
    "listener.name.out.gssapi.sasl.jaas.config": JAAS,
}
DATA = 300


@pytest.fixture
def has_library(monkeypatch):
    monkeypatch.setattr("odradek.config.kerberos.check_library", lambda who: None)


# -- names and rules ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("alice@R", ("alice", None, "R")),
        ("kafka/host@R", ("kafka", "host", "R")),
        ("kafka/@R", ("kafka", "", "R")),
        ("alice", ("alice", None, None)),
        ("alice/admin", ("alice/admin", None, None)),
        ("@", ("", None, "")),
    ],
)
def test_names(text: str, name: tuple[str, str | None, str | None]) -> None:
    assert KerberosName.parse(text) == name


@pytest.mark.parametrize("text", ["a/b/c@R", "a@b@R", "a@b/c", "a\\@b@R"])
def test_malformed_names(text: str) -> None:
    with pytest.raises(ValueError, match="malformed Kerberos name"):
        KerberosName.parse(text)
    with pytest.raises(NoUser):
        NameRules(["DEFAULT"]).user_of(text, "R")


RULES: list[tuple[list[str], str, str | None]] = [
    (["DEFAULT"], "alice@EXAMPLE.COM", "alice"),
    (["DEFAULT"], "kafka/host@EXAMPLE.COM", "kafka"),
    (["DEFAULT"], "alice@OTHER", None),
    (["RULE:[1:$1@$0](.*@OTHER)s/@.*//", "DEFAULT"], "alice@OTHER", "alice"),
    (["RULE:[1:$1@$0](.*@OTHER)s/@.*//", "DEFAULT"], "alice@EXAMPLE.COM", "alice"),
    (["RULE:[1:$1@$0](OTHER)s/@.*//"], "alice@OTHER", None),  # the whole base must match
    (["RULE:[2:$1.$2]"], "alice/admin@R", "alice.admin"),
    (["RULE:[2:$1.$2]"], "alice@R", None),
    (["RULE:[1:$1]/L"], "Alice@R", "alice"),
    (["RULE:[1:$1]/U"], "Alice@R", "ALICE"),
    (["RULE:[1:$1]L"], "Alice@R", "alice"),
    (["RULE:[1:$1]s/a/b/"], "banana@R", "bbnana"),
    (["RULE:[1:$1]s/a/b/g"], "banana@R", "bbnbnb"),
    (["RULE:[1:$1]s/a/B/g/L"], "banana@R", "bbnbnb"),
    (["RULE:[1:$1]s/(.)(.*)/$2$1/"], "alice@R", "licea"),
    (["RULE:[1:$1]s/(.).*/$12/"], "alice@R", "a2"),  # there is no group 12
    (["RULE:[1:$1]s/x*/-/g"], "ab@R", "-a-b-"),
    (["RULE:[1:$1]s/a(x)?/$1/"], "ab@R", "b"),
    (["RULE:[1:$1@$0]", "DEFAULT"], "alice@EXAMPLE.COM", None),  # not a simple name
    (["RULE:[1:$1]s/.*//", "DEFAULT"], "alice@EXAMPLE.COM", None),
    (["RULE:[0:$0]"], "alice@R", None),
    ([r"RULE:[1:$1](\p{L}+.*)"], "alice@R", "alice"),
    ([r"RULE:[1:$1](\w+)"], "Людина@R", None),  # only ASCII, as in Java
    (["RULE:[1:$1]s/(?<n>.)(.*)/$2${n}/"], "alice@R", "licea"),
    (["RULE:[1:$1]s/[a-z&&[^l]]/-/g"], "alice@R", "-l---"),
    ([], "alice@EXAMPLE.COM", None),
    (["DEFAULT"], "alice", "alice"),
]


@pytest.mark.parametrize(("rules", "name", "user"), RULES)
def test_rules(rules: list[str], name: str, user: str | None) -> None:
    if user is None:
        with pytest.raises(NoUser):
            NameRules(rules).user_of(name, REALM)
    else:
        assert NameRules(rules).user_of(name, REALM) == user


@pytest.mark.parametrize(
    "rule",
    [
        "",
        "default",
        "DEFAULT/L",
        "RULE:[:$1]",
        "RULE:[1:$1",
        "RULE:[1:$2]",
        "RULE:[1:$]",
        "RULE:[1:$1](",
        "RULE:[1:$1](*)",
        "RULE:[1:$1]s/(/b/",
        "RULE:[1:$1]s/a/$1/",
        "RULE:[1:$1]s/a/$/",
        "RULE:[1:$1]s/a/\\/",
        "RULE:[1:$1]s/a/b",
        "RULE:[1:$1]s/(?c)a/b/",
        "RULE:[1:$1](a{,3})",
        "RULE:[4294967297:$1]",
        "RULE:[1:$1]/L/U",
    ],
)
def test_malformed_rules(rule: str) -> None:
    with pytest.raises(ConfigurationError):
        NameRules([rule])


def generated(seed: int) -> tuple[list[str], str, str | None]:
    """Return rules from literal parts, a name, and its user, which is computed without patterns."""
    chance = random.Random(seed)

    def word() -> str:
        return "".join(chance.choices("aAbBcd-_", k=chance.randint(1, 4)))

    parts, realm = [word() for _ in range(chance.randint(1, 2))], chance.choice(("R", "Q"))
    made = [_rule(chance, word, parts, realm) for _ in range(chance.randint(1, 4))]
    user = next((result for _, result in made if result is not None), None)
    return [text for text, _ in made], f"{'/'.join(parts)}@{realm}", user


def test_rules_with_generated_names() -> None:
    for seed in seeds(DATA):
        rules, name, user = generated(seed)
        try:
            found = NameRules(rules).user_of(name, "R")
        except NoUser:
            found = None
        assert found == user, (seed, rules, name)


def _rule(chance, word, parts, realm):
    """Return a rule, and its result; None if it does not apply."""
    if not chance.randrange(4):
        return "DEFAULT", parts[0] if realm == "R" else None
    count = chance.randint(1, 2)
    pieces = [chance.choice((word(), *range(count + 1))) for _ in range(chance.randint(1, 3))]
    base = "".join(
        piece if isinstance(piece, str) else [realm, *parts, ""][piece] for piece in pieces
    )
    text = "".join(piece if isinstance(piece, str) else f"${piece}" for piece in pieces)
    text, result = f"RULE:[{count}:{text}]", base if count == len(parts) else None
    if chance.randrange(2):
        literal = chance.choice((base, word()))
        text += f"({literal})"
        result = result if literal == base else None
    if chance.randrange(2):
        old, new, count = word(), word(), chance.choice((1, -1))
        text += f"s/{old}/{new}/{'' if count == 1 else 'g'}"
        result = None if result is None else result.replace(old, new, count)
    case = chance.choice(("", "/L", "/U"))
    if result is not None and case:
        result = result.lower() if case == "/L" else result.upper()
    return text + case, result


# -- settings -----------------------------------------------------------------------------------


@pytest.mark.usefixtures("has_library")
def test_settings_of_a_listener() -> None:
    rule = "sasl.kerberos.principal.to.local.rules"
    changes = {rule: "DEFAULT", f"listener.name.out.{rule}": "RULE:[1:$1]/L,DEFAULT"}
    config, warnings = load({}, {**SETTINGS, **changes})  # GSSAPI is Apache Kafka's default
    settings = config.sasl_by_listener["OUT"].kerberos
    assert warnings == ()
    assert settings is not None
    assert (settings.principal, settings.key_table) == (f"kafka/h@{REALM}", "/k")
    assert settings.rules == NameRules(["RULE:[1:$1]/L", "DEFAULT"])


@pytest.mark.usefixtures("has_library")
@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"listener.name.out.gssapi.sasl.jaas.config": ""}, "listener OUT: GSSAPI needs the keys"),
        (
            {"listener.name.out.gssapi.sasl.jaas.config": "x required;"},
            "the login module of GSSAPI",
        ),
        ({"listener.name.out.gssapi.sasl.jaas.config": f"{MODULE} required;"}, "useKeyTab=true"),
        (
            {"listener.name.out.gssapi.sasl.jaas.config": JAAS.replace("kafka/h", "a/b/c")},
            "malformed Kerberos name",
        ),
        ({"sasl.kerberos.principal.to.local.rules": "DEFAULT,RULE:[1:$3]"}, "a number from 0 to 1"),
    ],
)
def test_settings_that_cannot_be_used(changes: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        load({}, {**SETTINGS, **changes})


def test_without_the_library_a_node_says_what_to_install(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)  # as if it were not installed
    with pytest.raises(
        ConfigurationError, match=r"listener OUT: .*pip install 'odradek\[gssapi\]'"
    ):
        load({}, SETTINGS)


@pytest.mark.parametrize(
    ("options", "service", "login"),
    [
        ('useKeyTab=true keyTab="/k" principal="a@R"', "kafka", ("kafka", "a@R", "/k", "")),
        ('useKeyTab=true principal="a@R" serviceName=k', "", ("k", "a@R", "", "")),
        ("useTicketCache=true", "kafka", ("kafka", "", None, "")),
        ('useTicketCache=true ticketCache="/c"', "kafka", ("kafka", "", None, "/c")),
    ],
)
def test_logins(options: str, service: str, login: tuple[str, str, str | None, str]) -> None:
    module = parse_login_module("x", f"{MODULE} required {options};")
    assert kerberos_login("x", module, service) == KerberosLogin(*login)


@pytest.mark.parametrize(
    ("options", "service", "problem"),
    [
        ("useTicketCache=true", "", "set sasl.kerberos.service.name"),
        ("useTicketCache=true serviceName=a", "b", "serviceName is a, but"),
        ("useKeyTab=true", "kafka", "needs a principal"),
        ("principal=a", "kafka", "nobody can be asked"),
    ],
)
def test_logins_that_cannot_be_used(options: str, service: str, problem: str) -> None:
    module = parse_login_module("x", f"{MODULE} required {options};")
    with pytest.raises(ConfigurationError, match=problem):
        kerberos_login("x", module, service)
