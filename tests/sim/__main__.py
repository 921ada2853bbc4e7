"""`python -m tests.sim [--cluster] [COUNT] [FIRST]`: runs COUNT seeds, each twice.

With --cluster, the seeds are runs of a cluster of three nodes. The exit code is 1 on failure. The
default of FIRST is computed from the seed of the run (`tests.support.run_seed`).
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat

from tests.support.run_seed import seeds

from odradek.sim.cluster import ClusterScenario
from odradek.sim.scenario import Scenario, simulate


def twice(seed: int, kind: type[Scenario]) -> tuple[int, list[str], Counter[str]]:
    one, other = simulate(seed, kind), simulate(seed, kind)
    problems = list(one.violations)
    if one.lines != other.lines:
        pairs = zip(one.lines, other.lines, strict=False)
        at = next((at for at, (a, b) in enumerate(pairs) if a != b), -1)
        problems.append(f"the second history differs from the first in line {at}")
    return seed, problems, Counter(one.counts)


def main() -> int:
    words = [each for each in sys.argv[1:] if each != "--cluster"]
    kind = ClusterScenario if "--cluster" in sys.argv else Scenario
    option = "--cluster " if kind is ClusterScenario else ""
    count = int(words[0]) if words else 200
    first = int(words[1]) if len(words) > 1 else seeds(count).start
    print(
        f"{count} seeds from {first} on; to repeat them: make sim ARGS='{option}{count} {first}'",
        flush=True,
    )
    started = time.monotonic()
    failed = 0
    counts: Counter[str] = Counter()
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for seed, problems, happened in pool.map(twice, range(first, first + count), repeat(kind)):
            counts.update(happened)
            failed += bool(problems)
            if (seed - first + 1) % 50 == 0:
                print(f"{seed - first + 1} done", flush=True)
            for problem in problems[:10]:
                print(f"seed {seed}: {problem}", flush=True)
    for what, number in sorted(counts.items()):
        print(f"{number:9,} {what}")
    print(f"{count} seeds twice in {time.monotonic() - started:.0f} s: {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
