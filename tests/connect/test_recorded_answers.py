"""Our worker answers as Apache Kafka's worker of release 4.3 has answered."""

from __future__ import annotations

import json
from pathlib import Path

from tests.connect.lab import Lab
from tests.connect.rest_script import RECORDED, answers, deviates, script

from odradek.testing import Broker


def is_settled(lab: Lab, name: str, state: str) -> bool:
    connector, tasks = lab.states(name)
    return {connector, *tasks} == {state}


def test_the_answers_are_those_of_apache_kafka(tmp_path: Path):
    recorded = json.loads(RECORDED.read_text())
    asks = script()
    assert [list(each[:2]) for each in asks] == [each[0] for each in recorded], (
        "the script has changed: record again with tests/oracle/test_java_connect_rest.py"
    )
    with Broker() as broker, Lab(broker.bootstrap_servers, tmp_path) as lab:

        def settled(wanted: dict[str, str]) -> None:
            for name, state in wanted.items():
                lab.until(lambda name=name, state=state: is_settled(lab, name, state))

        ours = answers(f"http://127.0.0.1:{lab.worker.port}", settled)
    different = [
        f"{ask}\n  java {java}\n  ours {own}"
        for ask, (_, java), own in zip(asks, recorded, ours, strict=True)
        if own != java and not deviates(ask)
    ]
    assert not different, "\n".join(different)
    named = sum(
        1
        for ask, (_, java), own in zip(asks, recorded, ours, strict=True)
        if own != java and deviates(ask)
    )
    assert named, "the deviations that are named exist"
