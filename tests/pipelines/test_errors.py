"""Errors on the command line of pipelines: the sentence first, and little else."""

from __future__ import annotations

import pytest
from pyspark.accumulators import AccumulatorTCPServer

from odradek.pipelines.arguments import Parser, at_least_one, seconds
from odradek.pipelines.runner import _silence_servers, _trace


@pytest.fixture
def parser() -> Parser:
    made = Parser(prog="pipeline")
    made.add_argument("--flights", type=at_least_one)
    made.add_argument("--seconds", type=seconds)
    return made


def test_values_that_are_right(parser):
    parsed = parser.parse_args(["--flights", "5", "--seconds", "0.5"])
    assert (parsed.flights, parsed.seconds) == (5, 0.5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--flights", "-5"], "argument --flights: must be an integer of at least 1; it is '-5'"),
        (["--flights", "0"], "argument --flights: must be an integer of at least 1; it is '0'"),
        (["--flights", "many"], "argument --flights: must be an integer of at least 1"),
        (["--seconds", "0"], "argument --seconds: must be a number of seconds above 0"),
        (["--seconds", "nan"], "argument --seconds: must be a number of seconds above 0"),
        (["--seconds", "inf"], "argument --seconds: must be a number of seconds above 0"),
        (["--flght", "5"], "unrecognized arguments: --flght 5"),
    ],
)
def test_the_first_line_of_an_error_is_the_sentence(parser, capsys, arguments, message):
    with pytest.raises(SystemExit) as ended:
        parser.parse_args(arguments)
    first, *more = capsys.readouterr().err.splitlines()
    assert ended.value.code == 2
    assert first.startswith(f"Error: {message}")
    assert more == ["pipeline --help lists the options."]


@pytest.fixture
def server():
    before = AccumulatorTCPServer.handle_error
    _silence_servers()
    with AccumulatorTCPServer(("127.0.0.1", 0), object, "token") as made:
        yield made
    AccumulatorTCPServer.handle_error = before


@pytest.mark.parametrize(("error", "is_shown"), [(EOFError(), False), (ValueError("bad"), True)])
def test_the_end_of_the_jvm_is_no_traceback(server, capsys, error, is_shown):
    try:
        raise error
    except (EOFError, ValueError):
        server.handle_error(None, ("127.0.0.1", 1))
    assert ("Traceback" in capsys.readouterr().err) == is_shown


def deep(depth):
    return deep(depth - 1) if depth else {}["missing"]


def test_an_error_has_the_message_first_and_two_frames():
    with pytest.raises(KeyError) as raised:
        deep(5)
    first, *more = _trace(raised.value).splitlines()
    assert first == "KeyError: 'missing'"
    assert len(more) == 4
    assert more[0].startswith(f'  File "{__file__}", line ')
