"""Parses the options of pipelines. The message of an error is its first line, and names the option."""

from __future__ import annotations

import argparse
import math
import re
import sys
from typing import NoReturn

EXIT_USAGE = 2


class Parser(argparse.ArgumentParser):
    """A parser whose errors begin with the message, and do not repeat all options."""

    def error(self, message: str) -> NoReturn:
        """Print the message and how to list the options; exit with 2."""
        sys.stderr.write(f"Error: {message}\n{self.prog} --help lists the options.\n")
        raise SystemExit(EXIT_USAGE)


def at_least_one(text: str) -> int:
    """Return a number of records or rows: an integer of at least 1.

    Raises:
        argparse.ArgumentTypeError: it is another text.
    """
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be an integer of at least 1; it is {text!r}")
    return number


def seconds(text: str) -> float:
    """Return a time in seconds, more than 0.

    Raises:
        argparse.ArgumentTypeError: it is another text.
    """
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not (number > 0 and math.isfinite(number)):
        raise argparse.ArgumentTypeError(f"must be a number of seconds above 0; it is {text!r}")
    return number


def number(text: str) -> float:
    """Return a number.

    Raises:
        argparse.ArgumentTypeError: it is another text.
    """
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not math.isfinite(found):
        raise argparse.ArgumentTypeError(f"must be a number; it is {text!r}")
    return found


_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def duration_s(text: str) -> int:
    """Return a time like 90s, 30m, 6h or 1d in seconds, at least 1.

    Raises:
        argparse.ArgumentTypeError: it is another text.
    """
    found = re.fullmatch(r"(\d{1,9})([smhd])", text)
    if found is None or int(found[1]) < 1:
        raise argparse.ArgumentTypeError(f"must be a time like 90s, 30m, 6h or 1d; it is {text!r}")
    return int(found[1]) * _UNITS_S[found[2]]
