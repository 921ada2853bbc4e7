"""Names of Kerberos have the users that they have in Apache Kafka."""

from __future__ import annotations

import random

import pytest
from compat.lab.toolchain import Missing
from tests.config.test_kerberos import REALM, RULES, generated
from tests.oracle.jvm import kerberos_users
from tests.support.run_seed import seeds

from odradek.config.kerberos_names import NameRules
from odradek.model.principal import NoUser

pytestmark = [pytest.mark.cluster, pytest.mark.java]

NAMES = (
    *("alice@R", "Alice/Admin@R", "kafka/host.example.com@EXAMPLE.COM", "alice@EXAMPLE.COM"),
    *("alice", "a/b", "a@b@R", "a/b/c@R", "banana@OTHER", "kafka/@R", "x@", "1/22@R"),
)
PARTS = (
    *("$0", "$1", "$2", "-", "a", "@", "/", "."),
    *("(.*)", "([a-z]*)", "(.*@R)", "s/a/b/", "s/a/b/g", "s/(.)(.)/$2$1/g", "s/x*/-/g", "s/.*//"),
    *("/L", "/U", "s/[.]/$0/", "s/(a)|b/<$1>/g", "s/a/\\$/", "L"),
)


def ours(realm: str, name: str, rules: list[str]) -> str:
    try:
        return NameRules(rules).user_of(name, realm)
    except NoUser:
        return "-"


def test_users() -> None:
    known = [(rules, name) for rules, name, _ in RULES if rules]
    cases = [(REALM, name, rules) for rules, own in known for name in (own, *NAMES)]
    for seed in seeds(300):
        rules, name, _ = generated(seed)
        cases.append(("R", name, rules))
        chance = random.Random(seed)
        count = chance.randint(0, 2)
        shape = [each for each in PARTS[:8] if each not in ("$0", "$1", "$2")[count + 1 :]]
        made = f"RULE:[{count}:{''.join(chance.choices(shape, k=2))}]"
        made += chance.choice(("", *PARTS[8:11])) + chance.choice(("", *PARTS[11:16], PARTS[18]))
        made += chance.choice(("", "/L", "/U"))
        cases.append((REALM, chance.choice(NAMES), [made, "DEFAULT"]))
    try:
        theirs = kerberos_users([(realm, name, *rules) for realm, name, rules in cases])
    except Missing as reason:
        pytest.skip(str(reason))
    for case, expected in zip(cases, theirs, strict=True):
        assert ours(*case) == (expected or "-"), case  # the empty name is a user in Apache Kafka
    assert len(set(theirs)) > 100
