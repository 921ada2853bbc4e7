"""`python -m bench.proofs`: run long tests at full size and store what came of each.

Each proof adds one line to a file of its name in `results`: when, on which commit and machine,
what ran and how often, with which seed, how it ended, how long it took, and the figures that it
printed. A proof that fails is stored, too.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from compat.lab.toolchain import REQUIRE_VARIABLE, ROOT
from tests.support.run_seed import VARIABLE as SEED_VARIABLE
from tests.support.run_seed import run_seed

from bench.machine import facts
from bench.proofs.catalogue import GROUPS, PROOFS, Proof, chosen

RESULTS = Path(__file__).parent / "results"
LOCAL = RESULTS / "local"
"""Of quick runs; not kept with the code."""
LAST_LINES = 3


def main(words: Sequence[str] | None = None) -> int:
    """Run the chosen proofs, one after another; 0 when all hold, 1 when one does not."""
    options = _parser().parse_args(words)
    if options.list:
        for proof in PROOFS:
            print(f"{proof.name:14} {proof.count} {proof.what}")
        return 0
    try:
        proofs = chosen(options.proofs)
    except KeyError as name:
        print(f"no proof {name}; there are {', '.join(_names())}", file=sys.stderr)
        return 2
    outcomes = [_run(proof, quick=options.quick) for proof in proofs]
    return 0 if all(outcomes) else 1


def _run(proof: Proof, *, quick: bool) -> bool:
    """Run one proof and store the outcome; whether it holds."""
    print(f"{proof.name}: {proof.size(quick=quick)} {proof.what}", flush=True)
    environment = {
        **os.environ,
        REQUIRE_VARIABLE: "java,go,node",
        SEED_VARIABLE: str(run_seed()),
        **proof.environment(quick=quick),
    }
    machine = facts()
    started = time.monotonic()
    command = proof.words(quick=quick)
    lines: list[str] = []
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            lines.append(line.rstrip())
    outcome = {
        **machine,
        "kind": "proof",
        "proof": proof.name,
        "what": proof.what,
        "count": proof.size(quick=quick),
        "outcome": "passed" if process.returncode == 0 else "failed",
        "seconds": round(time.monotonic() - started),
        "seed": run_seed(),
        "command": [Path(command[0]).name, *command[1:]],
        "variables": proof.environment(quick=quick),
        "said": _said(lines),
    }
    directory = LOCAL if quick else RESULTS
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{proof.name}.jsonl"
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(outcome, ensure_ascii=False) + "\n")
    print(f"{proof.name}: {outcome['outcome']}, stored in {path.name}", flush=True)
    return process.returncode == 0


def _said(lines: Sequence[str]) -> list[str]:
    """What a test counted, and the last lines."""
    filled = [line for line in lines if line.strip()]
    figures = [line for line in filled[:-LAST_LINES] if line.startswith("tests/") and ": " in line]
    return [*figures, *filled[-LAST_LINES:]]


def _names() -> list[str]:
    return [*(each.name for each in PROOFS), *GROUPS]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench.proofs",
        description="The long tests at full size, each stored.",
        epilog='example: make proofs ARGS="groups kills"',
    )
    parser.add_argument("proofs", nargs="*", help=f"of {', '.join(_names())} (default: all)")
    parser.add_argument(
        "--quick", action="store_true", help="a fiftieth of the work; to try it out"
    )
    parser.add_argument("--list", action="store_true", help="name the proofs and end")
    return parser


if __name__ == "__main__":
    sys.exit(main())
