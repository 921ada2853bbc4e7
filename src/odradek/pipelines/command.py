"""Makes a command of a pipeline: `python -m examples.stages`."""

from __future__ import annotations

from pathlib import Path

from odradek.pipelines.arguments import Parser
from odradek.pipelines.catalogue import Pipeline, parse
from odradek.pipelines.runner import AlreadyRunningError, OutputExistsError, RunOptions, execute


def command(pipeline: Pipeline) -> int:
    """Run a pipeline with the arguments of this process and its own broker; return the exit code."""
    parser = Parser(prog=f"python -m examples.{pipeline.name}")
    parser.add_argument("--output", type=Path, default=Path(f"{pipeline.name}-output"))
    parsed = parse(pipeline, parser)
    try:
        return execute(pipeline, parsed, RunOptions(parsed.output))
    except (OutputExistsError, AlreadyRunningError) as error:
        parser.error(str(error))
