"""Each API without rights, with rights for something else, with some of the rights, and with all.

The same requests are sent to Apache Kafka and to Odradek, and all fields of the responses are
compared: errors, and what is visible. `recorded.json` has the responses of Apache Kafka. The long
test compares them with a running node of Apache Kafka; with ODRADEK_VICTIM=apache it stores them.
"""

from __future__ import annotations

import os

import pytest
from compat.lab.toolchain import Missing
from tests.authorizer.matrix.answers import check, comparable, store, text
from tests.authorizer.matrix.cluster_requests import CLUSTER_REQUESTS
from tests.authorizer.matrix.dialogues import DIALOGUES
from tests.authorizer.matrix.final_requests import CREATED, DELETED, EVERYTHING, FINAL_REQUESTS
from tests.authorizer.matrix.group_requests import GROUP_REQUESTS
from tests.authorizer.matrix.request import Request
from tests.authorizer.matrix.rights import Rights, Users, variants
from tests.authorizer.matrix.rule_requests import RULES, rule_requests
from tests.authorizer.matrix.stage import READY, Stage, apache_kafka, odradek
from tests.authorizer.matrix.token_requests import TOKEN_REQUESTS
from tests.authorizer.matrix.topic_requests import CHANGES_OF_TOPICS, TOPIC_REQUESTS

from odradek.handlers.registry import SERVED
from odradek.wire.api import BY_KEY


def cases() -> dict[str, tuple[Request, Rights]]:
    """Return all cases by name, in the order in which they are sent."""
    found: dict[str, tuple[Request, Rights]] = {}

    def add(request: Request, name: str, rights: Rights) -> None:
        case = f"{request.name}: {name}"
        if case in found:  # the title does not tell which rights it needs
            case += f" ({', '.join(sorted({each.operation.name for each in request.needs}))})"
        assert case not in found, case
        found[case] = request, rights

    for request in TOPIC_REQUESTS:
        for name, rights in variants(request.needs):
            add(request, name, rights)
    for name, rules in RULES.items():
        for request in rule_requests(name):
            add(request, "rules", frozenset(rules))
    for request in (*GROUP_REQUESTS, *CLUSTER_REQUESTS, *TOKEN_REQUESTS, *CHANGES_OF_TOPICS):
        for name, rights in variants(request.needs):
            add(request, name, rights)
    return found


CASES = cases()


def users() -> Users:
    return Users([*(rights for _, rights in CASES.values()), frozenset(EVERYTHING), READY])


def outcomes(stage: Stage) -> dict[str, str]:
    found = {
        case: text(comparable(stage, request.api, stage.answer(request, rights)))
        for case, (request, rights) in CASES.items()
    }
    stage.wait_for_topics(CREATED, DELETED)
    for request in FINAL_REQUESTS:
        answer = stage.answer(request, frozenset(request.needs))
        found[request.name] = text(comparable(stage, request.api, answer))
    for name, steps in DIALOGUES.items():
        answers = zip(steps, stage.converse(steps), strict=False)
        found[f"dialogue: {name}"] = text([comparable(stage, s.api, each) for s, each in answers])
    return found


def test_each_advertised_api_is_in_the_matrix() -> None:
    asked = {(request.api, request.is_on_controller) for request, _ in CASES.values()}
    served = set()
    for key, each in SERVED.items():
        if each.is_on_brokers:
            served.add((BY_KEY[key].name, False))
        if each.is_on_controllers:
            served.add((BY_KEY[key].name, True))
    assert served - asked == set()


def test_responses_are_those_of_apache_kafka() -> None:
    with odradek(users()) as stage:
        check(outcomes(stage))


@pytest.mark.java
@pytest.mark.cluster
@pytest.mark.long
def test_recorded_responses_are_those_of_a_running_apache_kafka() -> None:
    try:
        with apache_kafka(users()) as stage:
            found = outcomes(stage)
    except Missing as reason:
        pytest.skip(str(reason))
    if os.environ.get("ODRADEK_VICTIM") == "apache":
        store(found)
    check(found, deviations={})
