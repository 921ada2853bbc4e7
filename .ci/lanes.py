"""Runs the lanes of the check, some of them at the same time, and says what each took.

A lane is a command. It starts when the lanes that it needs have passed. The output of a lane is printed
as one block when the lane ends, and is kept in `.cache/check`. If a lane fails, the lanes that need it
do not run, and the others run to their end: the check reports everything that it finds. The check
has passed if all lanes have passed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).resolve().parents[1]
LOGS = ROOT / ".cache" / "check"
POLL_SECONDS = 0.2


@dataclass(frozen=True)
class Lane:
    """A command of the check."""

    name: str
    command: tuple[str, ...]
    needs: tuple[str, ...] = ()
    """The lanes that have to pass before this one starts."""
    niceness: int = 0


@dataclass(frozen=True)
class Outcome:
    """How a lane ended."""

    exit_code: int
    seconds: float
    processor_seconds: float
    """Of all its processes."""
    last_line: str


LANES = (
    Lane("environment", ("make", "env")),
    Lane("newest-environment", ("make", "env-newest"), niceness=5),
    # What fails soonest, on one processor each.
    Lane("form", ("make", "check"), needs=("environment",)),
    Lane("wheel", ("make", "wheel"), needs=("environment",)),
    # All tests, on the wheel. Most of them wait for processes of other tests or for the network.
    Lane("test", ("make", "test", "ARGS=-m 'not long'"), needs=("form", "wheel")),
    # Beside the tests, one after another. The tests of Spark, and only they, have niceness 0 (scheduling.py).
    Lane("compat", ("make", "compat"), needs=("form", "wheel"), niceness=5),
    Lane("newest", ("make", "test-newest"), needs=("compat", "newest-environment")),
    Lane("seeds", ("make", "seeds"), needs=("newest",), niceness=5),
)


class Running:
    """A lane that has started."""

    def __init__(self, lane: Lane) -> None:
        self.lane = lane
        self.log = LOGS / f"{lane.name}.log"
        self._started = time.monotonic()
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(
                ["nice", "-n", str(lane.niceness), *lane.command],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def poll(self) -> Outcome | None:
        """Return the outcome if the lane has ended."""
        process_id, status, usage = os.wait4(self.process.pid, os.WNOHANG)
        if process_id == 0:
            return None
        self.process.returncode = os.waitstatus_to_exitcode(status)  # so that nobody waits again
        return Outcome(
            self.process.returncode,
            time.monotonic() - self._started,
            usage.ru_utime + usage.ru_stime,
            last_line(self.log.read_text(encoding="utf-8", errors="replace")),
        )

    def kill(self) -> None:
        """Kill all processes of the lane that did not start a session of their own."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def last_line(text: str) -> str:
    """Return the last line that is not empty, and is not about the exit code of make."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("make")]
    return lines[-1] if lines else ""


def check(lanes: Sequence[Lane]) -> dict[str, Outcome]:
    """Run the lanes. Return the outcomes of those that ran."""
    LOGS.mkdir(parents=True, exist_ok=True)
    waiting = list(lanes)
    running: list[Running] = []
    outcomes: dict[str, Outcome] = {}
    try:
        while True:
            for lane in [each for each in waiting if may_start(each, outcomes)]:
                waiting.remove(lane)
                print(f"{lane.name}: {' '.join(lane.command)}", flush=True)
                running.append(Running(lane))
            if not running:
                return outcomes
            time.sleep(POLL_SECONDS)
            for each in list(running):
                outcome = each.poll()
                if outcome is not None:
                    running.remove(each)
                    outcomes[each.lane.name] = outcome
                    show(each, outcome)
    finally:
        for each in running:
            each.kill()


def may_start(lane: Lane, outcomes: Mapping[str, Outcome]) -> bool:
    """Whether all lanes that the lane needs have passed."""
    return all(name in outcomes and outcomes[name].exit_code == 0 for name in lane.needs)


def show(ended: Running, outcome: Outcome) -> None:
    """Print the output of a lane."""
    passed = "passed" if outcome.exit_code == 0 else f"FAILED ({outcome.exit_code})"
    print(f"\n==== {ended.lane.name}: {passed} in {outcome.seconds:.0f} s ====", flush=True)
    sys.stdout.buffer.write(ended.log.read_bytes())
    print(f"==== end of {ended.lane.name} ====\n", flush=True)


def table(lanes: Sequence[Lane], outcomes: Mapping[str, Outcome]) -> str:
    """Return one line for each lane."""
    lines = [f"{'lane':18} {'seconds':>8} {'processor':>10}  outcome"]
    for lane in lanes:
        found = outcomes.get(lane.name)
        if found is None:
            lines.append(f"{lane.name:18} {'':8} {'':10}  not run")
            continue
        passed = "passed" if found.exit_code == 0 else "FAILED"
        numbers = f"{found.seconds:8.0f} {found.processor_seconds:10.0f}"
        lines.append(f"{lane.name:18} {numbers}  {passed}  {found.last_line}")
    return "\n".join(lines)


def main(lanes: Sequence[Lane] = LANES) -> int:
    """Run the check. Return 0 if all lanes have passed."""
    signal.signal(signal.SIGTERM, _end)
    started = time.monotonic()
    outcomes = check(lanes)
    print(table(lanes, outcomes))
    total = sum(each.processor_seconds for each in outcomes.values())
    print(f"the check: {time.monotonic() - started:.0f} s, {total:.0f} s of a processor")
    passed = len(outcomes) == len(lanes) and all(not each.exit_code for each in outcomes.values())
    print("the check has passed" if passed else "the check has FAILED", flush=True)
    return 0 if passed else 1


def _end(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
