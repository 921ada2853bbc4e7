"""Shortens the history of a run: what happened to the machines, and what clients did in between.

A history has thousands of lines, one for each change of a disk and each request. The result has a
line for each event of a machine, and between two events a line with the numbers of requests of each
client. Of the changes to disks, it has only the truncations of partitions that a violation names. A
violation that was found during the run has a line at its time.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

WATCH = "watch"
"""The source of the lines that tell a violation (`odradek.sim.watch`)."""
_PARTITION = re.compile(r"\b[\w.-]+-\d+\b")


def story(lines: Iterable[str], violations: Sequence[str]) -> list[str]:
    """Return the shortened history."""
    return list(_story(lines, violations))


def _story(lines: Iterable[str], violations: Sequence[str]) -> Iterator[str]:
    named = {each for text in violations for each in _PARTITION.findall(text)}
    requests: Counter[tuple[str, str]] = Counter()
    for line in lines:
        time_us, _, rest = line.partition(" ")
        source, _, what = rest.partition(" ")
        if source == WATCH:
            yield from _summary(requests)
            requests.clear()
            yield f"{int(time_us) / 1e6:9.3f} s  violated: {what}"
            continue
        if not source.startswith("node"):
            word = what.partition(" ")[0]
            if word != "answer" and not word.endswith("Response"):
                requests[source, word] += 1
            continue
        operation, _, path = what.partition(" ")
        if path.startswith("/"):
            is_told = operation == "truncate" and path.split("/")[-2] in named
            if not is_told:
                continue
        yield from _summary(requests)
        requests.clear()
        yield f"{int(time_us) / 1e6:9.3f} s  {source}  {what}"
    yield from _summary(requests)


def _summary(requests: Counter[tuple[str, str]]) -> Iterator[str]:
    by_client: dict[str, list[str]] = {}
    for (source, word), count in sorted(requests.items()):
        by_client.setdefault(source, []).append(f"{count} {word}")
    for source, words in by_client.items():
        yield f"{'':13}{source}: {', '.join(words)}"
