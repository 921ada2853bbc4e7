"""The assignor of Streams groups: its rules, and the same results as Apache Kafka's."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from random import Random

import pytest
from compat.lab.maven import next_jars
from compat.lab.toolchain import Missing, require
from tests.support.run_seed import seeds

from odradek.core.group.streams.assignor import MemberSpec, SubtopologySpec, assign
from odradek.core.group.streams.tasks import EMPTY, Tasks
from odradek.model.java_order import java_hash_order

GROUPS = int(os.environ.get("ODRADEK_STREAMS_GROUPS", "500"))


def specs(processes, targets=None, offsets=None):
    """Members by process, in Kafka's order."""
    targets, offsets = targets or {}, offsets or {}
    return {
        each: MemberSpec(processes[each], targets.get(each, EMPTY), offsets.get(each, {}))
        for each in java_hash_order(processes)
    }


def count(tasks):
    return sum(len(each) for each in tasks.values())


def test_tasks_are_spread_over_members():
    result = assign(specs({"a": "p", "b": "q"}), {"0": SubtopologySpec(4, False)}, 0)
    assert {each: count(tasks.active) for each, tasks in result.items()} == {"a": 2, "b": 2}


def test_a_task_stays_with_its_member():
    target = {"b": Tasks({"0": frozenset({0, 3})})}
    result = assign(specs({"a": "p", "b": "q"}, target), {"0": SubtopologySpec(4, False)}, 0)
    assert result["b"].active == {"0": {0, 3}}
    assert result["a"].active == {"0": {1, 2}}


def test_an_active_task_goes_where_its_standby_was():
    target = {"b": Tasks({}, {"0": frozenset({1})})}
    result = assign(specs({"a": "p", "b": "q"}, target), {"0": SubtopologySpec(2, True)}, 1)
    assert result["b"].active == {"0": {1}}


def test_an_active_task_goes_where_most_of_its_state_is():
    offsets = {"a": {("0", 1): 5}, "b": {("0", 1): 7}}
    subtopologies = {"0": SubtopologySpec(2, True)}
    result = assign(specs({"a": "p", "b": "q"}, offsets=offsets), subtopologies, 1)
    assert result["b"].active == {"0": {1}}


def test_standby_tasks_are_in_other_processes():
    processes = {"a": "p", "b": "p", "c": "q"}
    result = assign(specs(processes), {"0": SubtopologySpec(3, True)}, 1)
    for partition in range(3):
        (active,) = {processes[e] for e, t in result.items() if partition in t.active.get("0", ())}
        standby = {processes[e] for e, t in result.items() if partition in t.standby.get("0", ())}
        assert standby == {"p", "q"} - {active}


def test_one_process_has_no_standby_tasks():
    result = assign(specs({"a": "p", "b": "p"}), {"0": SubtopologySpec(3, True)}, 2)
    assert not any(each.standby for each in result.values())


def some_group(random):
    """A random group: members, subtopologies, number of standby replicas."""
    names = [f"{random.choice(('member', 'm', 'x'))}-{random.randrange(10**6)}" for _ in range(9)]
    members = dict.fromkeys(random.sample(names, random.randint(1, 9)))
    processes = [f"process-{random.randrange(10**6)}" for _ in range(random.randint(1, 6))]
    subtopologies = {
        str(number): SubtopologySpec(random.randint(1, 9), random.random() < 0.6)
        for number in range(random.randint(1, 3))
    }
    return (
        {each: random.choice(processes) for each in members},
        subtopologies,
        random.choice((0, 0, 1, 2)),
    )


def some_offsets(random, processes, subtopologies):
    """The offsets that some members have reported of some tasks."""
    if random.random() < 0.4:
        return {}
    return {
        each: {
            (name, index): random.choice((0, 5, random.randrange(10**6)))
            for name, spec in subtopologies.items()
            for index in range(spec.task_count)
            if random.random() < 0.3
        }
        for each in processes
        if random.random() < 0.7
    }


def changed(random, processes, subtopologies):
    """The next state of a group: members come and go, subtopologies get more tasks."""
    processes = dict(processes)
    for each in list(processes):
        if random.random() < 0.25 and len(processes) > 1:
            del processes[each]
    for _ in range(random.randrange(3)):
        processes[f"new-{random.randrange(10**6)}"] = random.choice(
            [*processes.values(), f"process-{random.randrange(10**6)}"]
        )
    if random.random() < 0.2:
        subtopologies = {
            each: spec._replace(task_count=spec.task_count + random.randrange(3))
            for each, spec in subtopologies.items()
        }
    return processes, subtopologies


def text(tasks):
    return ",".join(f"{each}_{index}" for each in sorted(tasks) for index in sorted(tasks[each]))


def question(members, subtopologies, replicas):
    words = [
        f"{each}|{spec.process_id}|{text(spec.tasks.active)}|{text(spec.tasks.standby)}|"
        + ",".join(f"{name}_{index}={offset}" for (name, index), offset in spec.offsets.items())
        for each, spec in members.items()
    ]
    kinds = ",".join(
        f"{each}:{spec.task_count}:{int(spec.is_stateful)}" for each, spec in subtopologies.items()
    )
    return "\t".join([str(replicas), kinds, *words])


def answer(result):
    return "\t".join(
        f"{each}|{text(result[each].active)}|{text(result[each].standby)}"
        for each in sorted(result)
    )


def histories():
    """Questions and our answers: each group is assigned some times, from its last assignment."""
    for seed in seeds(GROUPS // 5):
        random = Random(seed)
        processes, subtopologies, replicas = some_group(random)
        targets = {}
        for _ in range(5):
            members = specs(processes, targets, some_offsets(random, processes, subtopologies))
            targets = assign(members, subtopologies, replicas)
            yield seed, question(members, subtopologies, replicas), answer(targets)
            processes, subtopologies = changed(random, processes, subtopologies)


def test_every_task_is_assigned_once():
    for seed in seeds(100):
        random = Random(seed)
        processes, subtopologies, replicas = some_group(random)
        result = assign(specs(processes), subtopologies, replicas)
        for name, spec in subtopologies.items():
            held = sorted(index for each in result.values() for index in each.active.get(name, ()))
            assert held == list(range(spec.task_count)), seed
            copies = replicas if spec.is_stateful else 0
            room = min(copies, len(set(processes.values())) - 1)
            standby = [index for each in result.values() for index in each.standby.get(name, ())]
            assert len(standby) == room * spec.task_count, seed


@pytest.mark.java
@pytest.mark.timeout(300 + GROUPS // 20)
def test_assigns_as_apache_kafka():
    try:
        class_path = next_jars()[0].parent / "*"
        java = require("java")
    except Missing as reason:
        pytest.skip(str(reason))
    asked = list(histories())
    run = subprocess.run(
        [java, "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", str(class_path),
         Path(__file__).with_name("AssignorOracle.java")],
        input="".join(f"{each}\n" for _, each, _ in asked),
        check=True,
        stdout=subprocess.PIPE,
        encoding="utf-8",
        timeout=3600,
    )  # fmt: skip
    theirs = run.stdout.splitlines()
    assert len(theirs) == len(asked)
    different = [
        f"seed {seed}: {each}\n  theirs {kafka}\n  ours   {ours}"
        for (seed, each, ours), kafka in zip(asked, theirs, strict=True)
        if kafka != ours
    ]
    shown = "\n".join(different[:3])
    assert not different, f"{len(different)} of {len(asked)} differ\n{shown}"
