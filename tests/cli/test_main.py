"""The command line itself: help, usage, exit codes, start-up."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest
from tests.cli.conftest import invoke

from odradek.cli import main
from odradek.cli.lazy import LazyGroup


def commands(command=main.root, path=()):
    """All commands with their path."""
    context = click.Context(command)
    if not isinstance(command, click.Group):
        yield path, command
        return
    for name in command.list_commands(context):
        yield from commands(command.get_command(context, name), (*path, name))


COMMANDS = [pytest.param(path, command, id=" ".join(path)) for path, command in commands()]


@pytest.mark.parametrize(("path", "command"), COMMANDS)
def test_each_command_has_help_with_an_example(path, command):
    outcome = invoke(*path, "--help")
    assert outcome.code == 0
    assert f"Usage: odradek {' '.join(path)}" in outcome.out
    assert f" odradek {' '.join(path)}" in outcome.out.partition("Usage: ")[2].partition("\n")[2]
    described = [p for p in command.params if isinstance(p, click.Option)]
    for option in described:
        assert option.help or option.default is not None, f"{option.name} is not explained"


@pytest.mark.parametrize(("path", "command"), COMMANDS)
def test_help_fits_a_terminal(path, command):
    assert [line for line in invoke(*path, "--help").lines if len(line) > 80] == []


def test_groups_list_their_commands():
    outcome = invoke("topic", "--help")
    assert "delete-records" in outcome.out
    outcome = invoke("--help")
    assert "consume" in outcome.out


def test_the_options_of_serve_need_no_command():
    assert "odradek --port 9095 --metrics-port 9404" in invoke("--help").out


def test_version():
    import odradek
    from odradek.records import varint

    mode = "pure Python" if str(varint.__file__).endswith(".py") else "compiled"
    assert invoke("--version").out == f"odradek, version {odradek.__version__} ({mode})\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["tpoic"], "Did you mean topic?"),
        (["xyzzy"], "There is no command 'xyzzy'"),
        (["topic", "describe"], "Missing argument 'TOPIC…'"),
        (["topic", "list", "--nonsense"], "No such option"),
        (["topic", "list", "-b", "host:port"], "'port' is not a port"),
        (["topic", "list", "--timeout", "soon"], "is not a duration"),
        (["topic", "list", "--timeout", "0s"], "longer than nothing"),
        (["bench", "--duration", "0s"], "longer than nothing"),
        (["produce", "t", "x", "--key-separator", ""], "must not be empty"),
        (["topic", "create", "t", "--config", "x"], "write NAME=VALUE"),
        (["topic", "create", "t", "--config", "x=1", "--config", "x=2"], "given twice"),
        (["topic", "create", "t", "--assignment", "a"], "write broker ids"),
        (["topic", "create", "t", "--assignment", "1", "-p", "2"], "cannot be used with"),
        (["consume", "t", "--from", "soon"], "is not a position"),
        (["consume", "t", "--from", "0", "--last", "5"], "exclude each other"),
        (["consume", "t", "--format", "xml"], "write text, json or a template"),
        (["consume", "t", "-p", "x"], "write partitions as 0,2-4"),
        (["consume", "t", "-p", "9999999"], "there is no partition"),
        (["consume", "t", "--group", "g", "-p", "0"], "shares out the partitions"),
        (["produce", "t", "x", "--timestamp", "soon"], "is not a time"),
        (["produce", "t", "x", "-H", "=1"], "write NAME=VALUE"),
        (["produce", "t", "x", "--format", "json", "--key", "k"], "are in the JSON"),
        (["produce", "t", "x", "--key", "k", "--key-separator", ":"], "exclude each other"),
        (["group", "reset-offsets", "g"], "say where to"),
        (["group", "reset-offsets", "g", "--to", "0", "--shift", "1"], "say where to"),
        (["config", "describe", "broker", "one"], "is not the id of a broker"),
        (["config", "describe", "thing", "x"], "'thing' is not one of"),
        (["config", "set", "topic", "t", "x"], "write NAME=VALUE"),
    ],
)
def test_wrong_usage(words, said):
    outcome = invoke(*words)
    assert outcome.code == 2
    assert said in outcome.err
    assert "Usage: " in outcome.err
    assert outcome.out == ""


@pytest.mark.parametrize(
    "words",
    [
        ["topic", "list"],
        ["produce", "t", "x"],
        ["consume", "t"],
        ["group", "describe", "g"],
        ["config", "describe", "broker", "1"],
        ["cluster", "describe"],
    ],
)
def test_nothing_listens(words):
    outcome = invoke(*words)
    assert outcome.code == 1
    assert "Error: cannot connect to 127.0.0.1:1: connection refused" in outcome.err
    assert "Start a broker with: odradek" in outcome.err


def test_the_nearest_address_counts():
    outcome = invoke("-b", "127.0.0.1:2", "topic", "list")
    assert "127.0.0.1:2" in outcome.err
    outcome = invoke("-b", "127.0.0.1:2", "topic", "list", "-b", "127.0.0.1:3")
    assert "127.0.0.1:3" in outcome.err


def test_without_a_command_it_serves(monkeypatch):
    seen = []
    monkeypatch.setattr(LazyGroup, "invoke", lambda self, ctx: seen.append(ctx._protected_args))
    for words in ([], ["--port", "1"], ["--port=1"], ["--data", "x"]):
        invoke(*words)
    assert [args[:1] for args in seen] == [["serve"]] * 4


def test_nothing_heavy_is_imported_at_start():
    heavy = ("rich", "asyncio", "odradek.client.cluster", "odradek.wire", "json")
    code = f"import odradek.cli.main, sys; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
