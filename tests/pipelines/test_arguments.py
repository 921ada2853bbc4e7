"""Options of pipelines: an error is one sentence that names the option."""

from __future__ import annotations

import pytest

from odradek.pipelines.arguments import Parser, at_least_one, seconds


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
