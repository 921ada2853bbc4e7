"""A node is attacked, while honest clients work: they see no error, and the node stays small.

Each attack is bounded in time and count, and uses only loopback. `make proofs ARGS=attacks` runs all
at full size. The times of the honest clients without and during each attack are shown, not checked. Other
machines on the same host make them differ from run to run, so an attack that misses the limit is
measured twice more.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from tests.attacks import connections, data, encrypted  # noqa: F401  they contain the attacks
from tests.attacks.attack import ATTACKS, Attack
from tests.attacks.target import (
    LIMIT_TIMES,
    MEASURED_AGAIN,
    Used,
    Victim,
    raise_file_limit,
)
from tests.support.progress import report

pytestmark = [pytest.mark.long, pytest.mark.cluster]

PERCENT = int(os.environ.get("ODRADEK_ATTACK_PERCENT", "100"))


@pytest.fixture(scope="module")
def victim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Victim]:
    made = Victim(tmp_path_factory.mktemp("victim"))
    try:
        made.start()
        made.start_honest_clients()
    except BaseException:
        made.node.close()
        raise
    yield made
    made.close()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("one", ATTACKS, ids=lambda each: each.run.__name__)
def test_honest_clients_do_not_notice(victim: Victim, one: Attack, figures: list[str]) -> None:
    connections_max = raise_file_limit()
    count = max(1, min(one.count * PERCENT // 100, connections_max))

    def measure() -> Used:
        return victim.attacked(one.growth_max_bytes, lambda node: one.run(node, count))

    measured = [measure()]
    if measured[0].times > LIMIT_TIMES:
        measured += [measure() for _ in range(MEASURED_AGAIN)]
    measured.sort(key=lambda each: each.times)
    text = f"{count} {one.name}, {measured[len(measured) // 2]}"
    if len(measured) > 1:
        text += f" (the median of {', '.join(f'{each.times:.1f}' for each in measured)} times)"
    figures.append(text)
    report(ATTACKS.index(one) + 1, len(ATTACKS), "attacks")
