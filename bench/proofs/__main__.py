"""`python -m bench.proofs`: runs long tests at full size and stores their results.

Each long test appends one line to a file with its name in `results`. The line has the time, the
commit, the machine, the command, the count, the seed, the outcome, the duration, and the figures
that the test printed. The result of a test that failed is stored, too. An interrupted test is not
stored. On SIGINT or SIGTERM the program stops the current test and exits.
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
from bench.proofs.catalogue import GROUPS, LONG_TESTS, chosen
from bench.proofs.freshness import COMMITS_MAX, commits_since_result
from bench.proofs.long_test import LongTest

RESULTS = Path(__file__).parent / "results"
LOCAL = RESULTS / "local"
"""The results of `--quick`. Git ignores them."""
LAST_LINES = 3
PROGRESS_SECONDS = 20.0
"""Time between two lines that show the progress of a long test."""
END_SECONDS = 60.0
"""Time that an interrupted long test has to stop its processes."""
EXIT_INTERRUPTED = 130


class Interrupted(Exception):
    """A signal ended the long test, so there is no result."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the chosen long tests one after another. Return 0 if all passed, otherwise 1.

    Return 2 if there is no long test with one of the names.
    """
    options = _parser().parse_args(arguments)
    if options.list:
        for test in LONG_TESTS:
            print(f"{test.name:16} {test.text(test.count)}")
        return 0
    if options.due:
        for test in LONG_TESTS:
            if test.concerns and commits_since_result(test) > COMMITS_MAX:
                print(test.name)
        return 0
    try:
        tests = chosen(options.tests)
    except KeyError as name:
        print(f"no long test {name}; there are {', '.join(_names())}", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    outcomes = []
    for test in tests:
        try:
            outcomes.append(_run(test, quick=options.quick))
        except (KeyboardInterrupt, Interrupted):
            print(f"{test.name}: interrupted, nothing is stored", file=sys.stderr)
            return EXIT_INTERRUPTED
    return 0 if all(outcomes) else 1


def _run(test: LongTest, *, quick: bool) -> bool:
    """Run one long test and store the result. Return whether the test passed."""
    print(f"{test.name}: {test.text(test.size(quick=quick))}", flush=True)
    environment = {
        **os.environ,
        REQUIRE_VARIABLE: "java,go,node",
        SEED_VARIABLE: str(run_seed()),
        **test.environment(quick=quick),
    }
    machine = facts()
    started = time.monotonic()
    command = test.full_command(quick=quick)
    exit_code, lines = run_to_the_end(command, environment, test.name)
    if commit() != machine["commit"]:  # nodes and jobs that start later run the changed code
        machine["commit"] = f"{str(machine['commit']).rstrip('+')}+"
    outcome = {
        **machine,
        "kind": "proof",
        "proof": test.name,
        "what": test.what,
        "count": test.size(quick=quick),
        "outcome": "passed" if exit_code == 0 else "failed",
        "seconds": round(time.monotonic() - started),
        "seed": run_seed(),
        "command": [Path(command[0]).name, *command[1:]],
        "variables": test.environment(quick=quick),
        "said": _figures(lines),
    }
    directory = LOCAL if quick else RESULTS
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{test.name}.jsonl"
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(outcome, ensure_ascii=False) + "\n")
    print(f"{test.name}: {outcome['outcome']}, stored in {path.name}", flush=True)
    return exit_code == 0


def run_to_the_end(
    command: Sequence[str], environment: Mapping[str, str], name: str
) -> tuple[int, list[str]]:
    """Run a command and print its output. Return its exit code and the lines of its output.

    Raises:
        Interrupted: a signal ended the command.
        KeyboardInterrupt: this process was interrupted. The command has ended.
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
            start_new_session=True,  # on Ctrl-C only this process gets SIGINT, and sends it on
        ) as process,
        _printed_progress(Path(directory) / "progress", name),
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
        raise Interrupted
    return exit_code, lines


def _interrupt(process: subprocess.Popen[str]) -> None:
    """Send SIGINT to a command. If it does not end in time, kill all processes of its session."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)


@contextlib.contextmanager
def _printed_progress(path: Path, name: str) -> Iterator[None]:
    """Print every `PROGRESS_SECONDS` the duration and the progress that the test has reported."""
    ended = threading.Event()
    started = time.monotonic()

    def print_lines() -> None:
        while not ended.wait(PROGRESS_SECONDS):
            minutes, seconds = divmod(round(time.monotonic() - started), 60)
            progress = path.read_text(encoding="utf-8") if path.exists() else ""
            print(f"{name}: {minutes}:{seconds:02} {progress}".rstrip(), flush=True)

    thread = threading.Thread(target=print_lines, name="progress")
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _figures(lines: Sequence[str]) -> list[str]:
    """Return the lines with figures of tests, and the last lines."""
    filled = [line for line in lines if line.strip()]
    figures = [line for line in filled[:-LAST_LINES] if line.startswith("tests/") and ": " in line]
    return [*figures, *filled[-LAST_LINES:]]


def _names() -> list[str]:
    return [*(each.name for each in LONG_TESTS), *GROUPS]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench.proofs",
        description="Runs long tests at full size and stores each result.",
        epilog='example: make proofs ARGS="groups kills"',
    )
    names = ", ".join(_names())
    parser.add_argument("tests", nargs="*", metavar="TEST", help=f"{names} (default: all)")
    parser.add_argument(
        "--quick", action="store_true", help="a fiftieth of the work; to try a long test"
    )
    parser.add_argument("--list", action="store_true", help="list the long tests and exit")
    parser.add_argument(
        "--due", action="store_true", help="list those whose results are too old, and exit"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
