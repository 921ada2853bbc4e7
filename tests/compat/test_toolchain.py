"""Toolchains that are required, and ports that processes reserve."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from compat.lab.toolchain import (
    PORTS,
    PROGRAMS,
    ROOT,
    Missing,
    RequiredMissing,
    check_required,
    free_port,
    require,
)


@pytest.fixture
def no_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))


@pytest.mark.parametrize("program", PROGRAMS)
def test_what_needs_a_missing_program_is_skipped_or_fails(
    program: str, no_programs: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, described = PROGRAMS[program]
    monkeypatch.delenv("ODRADEK_REQUIRE", raising=False)
    with pytest.raises(Missing) as skipped:
        require(program)
    assert described in str(skipped.value)
    monkeypatch.setenv("ODRADEK_REQUIRE", name)
    with pytest.raises(RequiredMissing) as failed:
        require(program)
    assert described in str(failed.value)


@pytest.mark.parametrize("missing", PROGRAMS)
def test_each_program_of_a_required_toolchain_is_looked_for(
    missing: str, tmp_path: Path, no_programs: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for program in PROGRAMS.keys() - {missing}:
        (tmp_path / program).touch(0o755)
    monkeypatch.setenv("ODRADEK_REQUIRE", "java,go,node")
    with pytest.raises(RequiredMissing, match=f"no `{missing}` here"):
        check_required()
    (tmp_path / missing).touch(0o755)
    check_required()


def test_a_run_of_tests_without_maven_fails_at_once(tmp_path: Path) -> None:
    """Also if the jars are there from an earlier run."""
    for program in PROGRAMS.keys() - {"mvn"}:
        (tmp_path / program).touch(0o755)
    words = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "tests/compat"]
    environment = {**os.environ, "PATH": str(tmp_path), "ODRADEK_REQUIRE": "java,go,node"}
    run = subprocess.run(
        words, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert run.returncode == pytest.ExitCode.USAGE_ERROR
    assert "no `mvn` here (Apache Maven); ODRADEK_REQUIRE has java" in run.stderr
    assert "passed" not in run.stdout


def test_only_toolchains_can_be_required(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODRADEK_REQUIRE", "jaav")
    with pytest.raises(RequiredMissing, match="jaav"):
        check_required()


def test_two_processes_reserve_different_ports() -> None:
    """The other one begins to look for a port where this one did."""
    ours = {free_port() for _ in range(20)}
    words = (
        "from compat.lab import toolchain\n"
        f"toolchain.PORTS = range({min(ours)}, {PORTS.stop})\n"
        "toolchain.os.getpid = lambda: 0\n"
        "locks = toolchain.PortLocks()\n"
        "print(*(locks.reserve() for _ in range(20)))\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", words], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True
    )
    theirs = {int(port) for port in run.stdout.split()}
    assert len(theirs) == len(ours) == 20
    assert not theirs & ours
    assert theirs | ours <= set(PORTS)
