"""The processes that tests start."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable

import pytest
from tests.support.child import Child

SERVER = """
import signal, sys, time
def end(*_):
    print("ended", flush=True)
    sys.exit({code})
signal.signal(signal.SIGTERM, end)
print("starts", flush=True)
print("ready on 7", file=sys.stderr, flush=True)
while True: time.sleep(60)
"""
ECHO = "import sys\nfor line in sys.stdin: print(line.upper(), end='', flush=True)"


def python(code: str, **options) -> Child:
    return Child([sys.executable, "-c", code], **options)


def test_lines_are_waited_for_and_returned_once(tmp_path) -> None:
    log = tmp_path / "log"
    log.write_text("ready of an earlier process\n")
    with python(SERVER.format(code=0), output=log, stops=True) as child:
        assert child.wait_for("ready") == "starts\nready on 7\n"
        child.check()
        child.signal(signal.SIGTERM)
        assert child.wait_for("ended") == "ended\n"
        assert child.wait() == 0
    assert log.read_text().endswith("ready on 7\nended\n")


def test_a_process_that_ends_too_early_is_reported_with_its_last_words() -> None:
    with python("raise SystemExit('no port is free')") as child:
        with pytest.raises(AssertionError, match="ended before 'ready': no port is free"):
            child.wait_for("ready")
        with pytest.raises(AssertionError, match="no port is free"):
            child.until(lambda: False)
        assert (child.wait(), child.runs) == (1, False)


def test_a_process_that_does_not_get_ready_is_reported() -> None:
    with python(SERVER.format(code=0)) as child:
        child.wait_for("ready")
        with pytest.raises(AssertionError, match=r"no 'never': starts\nready on 7"):
            child.wait_for("never", seconds=0.1)


def run(code: int, then: Callable[[], object]) -> None:
    with python(SERVER.format(code=code), stops=True) as child:
        child.wait_for("ready")
        then()


def test_a_process_that_must_stop_well() -> None:
    run(0, bool)
    with pytest.raises(AssertionError, match="ended with 3"):
        run(3, bool)
    with pytest.raises(ZeroDivisionError):  # the first failure is the one to tell
        run(3, lambda: 1 / 0)


def test_a_process_talks_and_hears() -> None:
    with python(ECHO, talks=True, hears=True) as child:
        assert child.ask("one") == "ONE"
        child.tell("two")
        child.tell("three")
        assert child.finish() == 0
        assert list(child.lines()) == ["TWO", "THREE"]


def test_a_process_that_ends_instead_of_an_answer() -> None:
    code = "import sys; sys.exit(f'cannot {input()}')"
    with (
        python(code, talks=True, hears=True) as child,
        pytest.raises(AssertionError, match="ended: 1: cannot add"),
    ):
        child.ask("add")


def test_a_killed_process_may_be_closed_twice() -> None:
    with python(ECHO, talks=True, hears=True) as child:
        child.kill()
        assert child.wait() == -signal.SIGKILL
        child.close()
