"""How many commits have changed what a long test proves since its last stored result.

Each long test names the files whose changes its result concerns (`LongTest.concerns`). A test of the
check fails if more than `COMMITS_MAX` commits have touched them (`tests/tidy/test_proofs.py`).
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from typing import Any

from compat.lab.toolchain import ROOT

from bench.proofs.long_test import LongTest
from bench.proofs.table import last_result

COMMITS_MAX = 10
COUNTED_FROM = "6199edc3"
"""The commit when counting began. The commits before it are not counted, and a long test without a
result counts from here."""


class NoHistory(Exception):
    """The history of the repository is not here: there is no git, or the clone is shallow."""


def commits_since_result(test: LongTest) -> int:
    """Return the number of commits that touched the files of a long test since its last result.

    Commits before `COUNTED_FROM` are not counted.

    Raises:
        NoHistory: the commits are not known here.
    """
    if _git("rev-parse", "--is-shallow-repository") != "false":
        raise NoHistory("the clone is shallow")
    return int(_git("rev-list", "--count", *_since(last_result(test.name)), "--", *test.concerns))


def _since(result: Mapping[str, Any] | None) -> list[str]:
    """Return the revisions after the result."""
    counted = ["HEAD", f"^{COUNTED_FROM}"]
    if result is None:
        return counted
    commit = result["commit"].rstrip("+")
    try:
        _git("merge-base", "--is-ancestor", commit, "HEAD")
    except NoHistory:  # the commit was rebased
        return [*counted, f"--since={result['time']}"]
    return [*counted, f"^{commit}"]


def _git(*words: str) -> str:
    command = ["git", *words]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise NoHistory(f"{' '.join(command)}: {error}") from None
    return done.stdout.strip()
