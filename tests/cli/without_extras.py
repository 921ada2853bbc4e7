"""Runs `odradek` where the libraries of all extras are hidden. A child process of test_without_extras.

Each line of the input has the words of a command line as JSON. The answer is a line with its exit code and
its output. The word `*` as the only one asks for the paths of all commands.
"""

from __future__ import annotations

import io
import json
import sys
from contextlib import redirect_stderr, redirect_stdout


class Without:
    """Finds modules as another finder does, but not those that are hidden."""

    def __init__(self, finder, hidden) -> None:
        self._finder = finder
        self._hidden = hidden

    def find_spec(self, name, path=None, target=None):
        if name in self._hidden:
            return None
        return self._finder.find_spec(name, path, target)


def answer(words: list[str]) -> dict[str, object]:
    import click

    from odradek.cli import main

    def paths(command, path=()):
        yield list(path)
        if isinstance(command, click.Group):
            context = click.Context(command)
            for name in command.list_commands(context):
                yield from paths(command.get_command(context, name), (*path, name))

    if words == ["*"]:
        return {"paths": list(paths(main.root))}
    output = io.StringIO()
    with redirect_stdout(output), redirect_stderr(output):
        code = main.run(words)
    return {"code": code, "output": output.getvalue()}


if __name__ == "__main__":
    sys.meta_path[:] = [Without(finder, sys.argv[1:]) for finder in sys.meta_path]
    for line in sys.stdin:
        sys.stdout.write(json.dumps(answer(json.loads(line))) + "\n")
        sys.stdout.flush()
