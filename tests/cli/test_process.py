"""Tests that need a separate process: signals, closed pipes, completion, terminals."""

from __future__ import annotations

import os
import pty
import shutil
import signal
import subprocess
import sys

import pytest
from tests.support.child import ODRADEK, Child


def environment(bootstrap, **more):
    return {**os.environ, "ODRADEK_BOOTSTRAP_SERVER": bootstrap, "TERM": "xterm", **more}


def start(bootstrap, *words, **options):
    return Child([*ODRADEK, *words], environment=environment(bootstrap), **options)


def test_ctrl_c_while_following(bootstrap, odradek, topic):
    odradek("produce", topic, "hello")
    with start(bootstrap, "consume", topic, "--follow", talks=True) as process:
        assert process.line() == "hello"
        process.signal(signal.SIGINT)
        assert process.wait(30) == 130
        assert (process.stdout.read(), process.output.strip()) == (b"", "")


def test_ctrl_c_commits_what_was_printed(bootstrap, odradek, topic):
    odradek("produce", topic, "one", "two", "-p", 0)
    words = ["consume", topic, "--follow", "--group", topic]
    with start(bootstrap, *words, talks=True) as process:
        assert [process.line(), process.line()] == ["one", "two"]
        odradek("produce", topic, "three", "-p", 0)
        assert process.line() == "three"
        process.signal(signal.SIGINT)
        assert process.wait(30) == 130
    # The signal may have come between the last line and the note of it: once more, never lost.
    assert odradek("consume", topic, "--group", topic).out in ("", "three\n")


def test_the_reader_goes_away(bootstrap, odradek, topic):
    odradek("produce", topic, *[str(n) * 100 for n in range(2000)])
    with start(bootstrap, "consume", topic, "--follow", talks=True) as process:
        process.line()
        process.stdout.close()
        odradek("produce", topic, "more")
        assert process.wait(30) == 141
        assert process.output == ""


def test_input_that_comes_slowly_is_sent_at_once(bootstrap, odradek, topic):
    with start(bootstrap, "produce", topic, hears=True) as process:
        process.tell("first")
        assert odradek("consume", topic, "--follow", "--count", 1).lines == ["first"]
        process.check()
        assert process.finish(30) == 0


def on_terminal(bootstrap, *words, typed="", code=0, **variables):
    """What a command writes to a terminal of 80 columns, on which something is typed."""
    leader, follower = pty.openpty()
    env = environment(bootstrap, COLUMNS="80", **variables)
    with subprocess.Popen(
        [*ODRADEK, *words], env=env, stdin=follower, stdout=follower, stderr=follower
    ) as process:
        os.close(follower)
        os.write(leader, typed.encode())
        output = b""
        try:
            while data := os.read(leader, 65536):
                output += data
        except OSError:
            pass  # Linux says so when the other side of a terminal has closed
        assert process.wait(30) == code
    os.close(leader)
    return output.decode()


def test_a_no_deletes_nothing(bootstrap, odradek, topic):
    shown = on_terminal(bootstrap, "topic", "delete", topic, typed="n\n", code=1)
    assert f"Delete {topic} with all records? [y/N]" in shown
    assert "Nothing was done." in shown
    assert topic in odradek("topic", "list", "-q").lines


def test_colours_only_where_they_are_wanted(bootstrap, odradek, topic):
    assert "\x1b[1m" in on_terminal(bootstrap, "topic", "describe", topic)
    assert "\x1b" not in on_terminal(bootstrap, "topic", "describe", topic, NO_COLOR="1")
    assert "\x1b" not in odradek("topic", "describe", topic).out
    assert "\x1b[31m" in on_terminal(bootstrap, "topic", "describe", "no-such-topic", code=1)
    assert "\x1b" not in on_terminal(
        bootstrap, "topic", "describe", "no-such-topic", code=1, NO_COLOR="1"
    )


@pytest.mark.parametrize(
    "words",
    [
        ["topic", "list", "--long"],
        ["cluster", "describe"],
        ["cluster", "api-versions"],
        ["topic", "offsets", "TOPIC"],
        ["topic", "describe", "TOPIC"],
    ],
)
def test_tables_fit_a_terminal(bootstrap, topic, words):
    words = [topic if word == "TOPIC" else word for word in words]
    shown = on_terminal(bootstrap, *words, NO_COLOR="1")
    assert [line for line in shown.splitlines() if len(line) > 80] == []


def complete(bootstrap, line):
    """What bash would offer for the last word of a line."""
    words = line.split(" ")
    env = environment(
        bootstrap,
        _ODRADEK_COMPLETE="bash_complete",
        COMP_WORDS=line,
        COMP_CWORD=str(len(words) - 1),
    )
    code = "from odradek.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    return [line.partition(",")[2] for line in done.stdout.splitlines() if line]


def test_completion_of_commands_options_and_names(bootstrap, topic):
    assert complete(bootstrap, "odradek con") == ["consume", "config", "connect"]
    assert complete(bootstrap, "odradek topic off") == ["offsets"]
    assert complete(bootstrap, "odradek consume --isol") == ["--isolation"]
    assert complete(bootstrap, "odradek --me") == ["--metrics-port"]
    assert complete(bootstrap, "odradek --port 0 --me") == ["--metrics-port"]
    assert complete(bootstrap, "odradek --he") == ["--help"]
    assert complete(bootstrap, f"odradek consume {topic[:8]}") == [topic]
    assert complete(bootstrap, f"odradek config describe topic {topic[:8]}") == [topic]
    assert complete(bootstrap, f"odradek config describe topic {topic} cleanup") == [
        "cleanup.policy"
    ]
    assert complete(bootstrap, f"odradek config set topic {topic} cleanup") == ["cleanup.policy="]
    assert complete(bootstrap, "odradek config set broker one ret") == []


def test_completion_without_a_broker():
    assert complete("127.0.0.1:1", "odradek consume x") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(bootstrap, shell):
    done = subprocess.run([*ODRADEK, "completion", shell], capture_output=True, check=True)
    assert b"_ODRADEK_COMPLETE" in done.stdout
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=done.stdout, check=True)
