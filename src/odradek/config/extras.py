"""The extras of the package: libraries that only some features need.

Each is imported where it is used, so that everything else works without it, the help of commands
included. A message about a library that is missing names the extra that has it.
"""

from __future__ import annotations

from collections.abc import Iterable

SECURE = "secure"
GSSAPI = "gssapi"
SERIALIZERS = "serializers"
SPARK = "spark"
DEMO = "demo"
EXAMPLES = "demo,delta"


def missing(modules: Iterable[str]) -> list[str]:
    """Return the modules that are not installed."""
    from importlib.util import find_spec  # not needed at the start of a node

    return [each for each in modules if find_spec(each) is None]


def install(extra: str) -> str:
    """Return the command that installs the libraries of an extra, for the installed version."""
    return f"pip install 'odradek[{extra}]'"
