"""`python -m bench.proofs`: run long tests at full size and store their outcomes.

Each proof adds one line to a file of its name in `results`: when, on which commit and machine,
what ran and how often, with which seed, how it ended, how long it took, and the figures that it
printed. A proof that fails is stored, too. One that is interrupted is not: SIGINT and SIGTERM end
it in order, and the proofs that follow do not run.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from compat.lab.toolchain import REQUIRE_VARIABLE, ROOT
from tests.support.progress import VARIABLE as PROGRESS_VARIABLE
from tests.support.run_seed import VARIABLE as SEED_VARIABLE
from tests.support.run_seed import run_seed

from bench.machine import commit, facts
from bench.proofs.catalogue import GROUPS, PROOFS, Proof, chosen

RESULTS = Path(__file__).parent / "results"
LOCAL = RESULTS / "local"
"""Of quick runs; not kept with the code."""
LAST_LINES = 3
PROGRESS_SECONDS = 20.0
"""Between two lines that tell how far a proof is."""
END_SECONDS = 60.0
"""How long an interrupted proof may take to stop what it started."""
EXIT_INTERRUPTED = 130


class InterruptedProof(Exception):
    """The proof was ended by a signal: nothing is known."""


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
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    outcomes = []
    for proof in proofs:
        try:
            outcomes.append(_run(proof, quick=options.quick))
        except (KeyboardInterrupt, InterruptedProof):
            print(f"{proof.name}: interrupted, nothing is stored", file=sys.stderr)
            return EXIT_INTERRUPTED
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
    exit_code, lines = run_to_the_end(command, environment, proof.name)
    if commit() != machine["commit"]:  # nodes and jobs that start later run the changed code
        machine["commit"] = f"{str(machine['commit']).rstrip('+')}+"
    outcome = {
        **machine,
        "kind": "proof",
        "proof": proof.name,
        "what": proof.what,
        "count": proof.size(quick=quick),
        "outcome": "passed" if exit_code == 0 else "failed",
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
    return exit_code == 0


def run_to_the_end(
    command: Sequence[str], environment: Mapping[str, str], name: str
) -> tuple[int, list[str]]:
    """Run a command and show what it says; its exit code and its lines.

    Raises:
        InterruptedProof: a signal ended it.
        KeyboardInterrupt: this process was interrupted; the command has ended.
    """
    lines: list[str] = []
    with (
        tempfile.TemporaryDirectory(prefix="odradek-proof-") as directory,
        subprocess.Popen(
            command,
            cwd=ROOT,
            env={**environment, PROGRESS_VARIABLE: str(Path(directory) / "progress")},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,  # Ctrl-C is for this process, which passes it on once
        ) as process,
        _telling_progress(Path(directory) / "progress", name),
    ):
        assert process.stdout is not None
        try:
            for line in process.stdout:
                print(line, end="", flush=True)
                lines.append(line.rstrip())
            exit_code = process.wait()
        except KeyboardInterrupt:
            _interrupt(process)
            raise
    if exit_code < 0 or any("KeyboardInterrupt" in line for line in lines[-LAST_LINES:]):
        raise InterruptedProof
    return exit_code, lines


def _interrupt(process: subprocess.Popen[str]) -> None:
    """End a command in order, or its whole session when it does not end."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)


@contextlib.contextmanager
def _telling_progress(path: Path, name: str) -> Iterator[None]:
    """Print now and then for how long a proof has run, and how far it says that it is."""
    ended = threading.Event()
    started = time.monotonic()

    def tell() -> None:
        while not ended.wait(PROGRESS_SECONDS):
            minutes, seconds = divmod(round(time.monotonic() - started), 60)
            told = path.read_text(encoding="utf-8") if path.exists() else ""
            print(f"{name}: {minutes}:{seconds:02} {told}".rstrip(), flush=True)

    thread = threading.Thread(target=tell, name="progress")
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


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
