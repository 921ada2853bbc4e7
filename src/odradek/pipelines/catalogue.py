"""Finds and loads pipelines: the examples, and the modules of users.

The examples are in the directory `examples` of a clone of the repository: not in the wheel. A clone
is the current directory, or the directory from which the package was installed with `pip install -e`.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import importlib.util
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any

import odradek
from odradek.config import extras

EXAMPLES = "examples"
RUN, ADD_ARGUMENTS, CHECK, CONTINUES = "run", "add_arguments", "check", "continues"

Run = Callable[..., Any]
"""Gets a console, places and options. Returns lines to reconcile, or None: then the pipeline lasts
until its queries end."""


class NoSuchPipelineError(LookupError):
    """There is no pipeline of this name. The message names a similar one."""


class NotAPipelineError(TypeError):
    """A module is no pipeline, or cannot be imported. The message says why or what to do."""


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A loaded pipeline. An example needs a new output directory, unless it continues."""

    name: str
    run: Run
    add_arguments: Callable[[argparse.ArgumentParser], None] | None = None
    check: Callable[[argparse.Namespace], None] | None = None
    is_example: bool = False
    continues: Callable[[argparse.Namespace], bool] | None = None
    """Says whether an example that was stopped or killed continues in the same output directory."""


def clone() -> Path | None:
    """Return the directory of the clone that has the examples."""
    for root in (Path.cwd(), Path(odradek.__file__).parents[2]):
        if (root / EXAMPLES / "stages" / "__main__.py").is_file():
            return root
    return None


def examples() -> dict[str, str]:
    """Return the names of the examples, each with a line of help; nothing without a clone."""
    root = clone()
    if root is None:
        return {}
    found = {}
    for path in sorted((root / EXAMPLES).glob("*/__main__.py")):
        text = ast.get_docstring(ast.parse(path.with_name("__init__.py").read_text("utf-8"))) or ""
        found[path.parent.name] = text.partition(" See README")[0].rstrip(".")
    return found


def load(name: str) -> Pipeline:
    """Load an example by its name, a file by its path, or a module by its dotted name.

    Raises:
        NoSuchPipelineError: there is nothing with this name.
        NotAPipelineError: the module cannot be imported, or has no function `run`.
    """
    known = examples()
    if name in known:
        root = clone()
        assert root is not None, "the examples are in a clone"
        return _pipeline(name, _imported(f"{EXAMPLES}.{name}.__main__", root), is_example=True)
    if name.endswith(".py"):
        return _pipeline(Path(name).stem, _from_file(Path(name)))
    module = _imported(name, Path.cwd()) if _exists(name) else None
    if module is None:
        raise NoSuchPipelineError(_advice(name, known))
    return _pipeline(name.rpartition(".")[2], module)


def _advice(name: str, known: dict[str, str]) -> str:
    close = get_close_matches(name, known, n=1)
    if close:
        return f"there is no pipeline {name!r}. Did you mean {close[0]}?"
    own = "For your own pipeline give a file (jobs/words.py) or a module (jobs.words)"
    if known:
        return f"there is no pipeline {name!r}: there are {', '.join(known)}. {own}"
    return (
        f"there is no pipeline {name!r}. {own}. The examples are in a clone of Odradek's "
        "repository: run the command there"
    )


def _exists(name: str) -> bool:
    """Return whether there is a module of this name, in the current directory or installed."""
    if not all(part.isidentifier() for part in name.split(".")):
        return False
    _add_to_path(Path.cwd())
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # a package of the name is missing
        return False


def _add_to_path(directory: Path) -> None:
    if str(directory) not in sys.path:
        sys.path.insert(0, str(directory))


def _imported(name: str, root: Path) -> ModuleType:
    _add_to_path(root)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise NotAPipelineError(
            f"{name} needs {error.name}, which is not installed. "
            f"The examples need: {extras.install(extras.EXAMPLES)}"
        ) from error
    except Exception as error:
        raise NotAPipelineError(_why(name, error)) from error


def _why(name: str, error: Exception) -> str:
    """Return why a module cannot be loaded, with the last place in the user's code."""
    if isinstance(error, SyntaxError):
        return f"{name} cannot be loaded: {error.msg} ({error.filename}, line {error.lineno})"
    last = traceback.extract_tb(error.__traceback__)[-1]
    reason = f"{type(error).__name__}: {error}"
    return f"{name} cannot be loaded: {reason} ({last.filename}, line {last.lineno})"


def _from_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise NoSuchPipelineError(f"there is no file {path}")
    _add_to_path(path.resolve().parent)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None, "a file that ends with .py has a loader"
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # functions of the module are pickled by this name
    try:
        spec.loader.exec_module(module)
    except ModuleNotFoundError as error:
        del sys.modules[path.stem]
        raise NotAPipelineError(f"{path} needs {error.name}, which is not installed") from error
    except Exception as error:
        del sys.modules[path.stem]
        raise NotAPipelineError(_why(str(path), error)) from error
    return module


def _pipeline(name: str, module: ModuleType, *, is_example: bool = False) -> Pipeline:
    run = getattr(module, RUN, None)
    if not callable(run):
        raise NotAPipelineError(
            f"{name} is no pipeline: it has no function run(console, places, options). "
            "See docs/pipelines.md"
        )
    add, check = getattr(module, ADD_ARGUMENTS, None), getattr(module, CHECK, None)
    continues = getattr(module, CONTINUES, None)
    return Pipeline(name, run, add, check, is_example, continues)


def parse(
    pipeline: Pipeline, parser: argparse.ArgumentParser, arguments: list[str] | None = None
) -> argparse.Namespace:
    """Parse the options of a pipeline, and check them. Exit with 2 if they are wrong."""
    if pipeline.add_arguments is not None:
        pipeline.add_arguments(parser)
    parsed = parser.parse_args(arguments)
    if pipeline.check is not None:
        try:
            pipeline.check(parsed)
        except ValueError as error:
            parser.error(str(error))
    return parsed
