"""`odradek connect new`: a connector to start from, with a test."""

from __future__ import annotations

import re
from pathlib import Path

import click

_CONNECTOR = '''"""The connector {name}: counts, and writes each number to a topic."""

import time

from odradek.connect import ConfigDef, ConfigType, SourceConnector, SourceRecord, SourceTask

CONFIG = (
    ConfigDef()
    .define("topic", ConfigType.STRING, documentation="The topic to write to.")
    .define("pause.ms", ConfigType.LONG, 1000, documentation="The time between two numbers.")
)


class {name}Task(SourceTask):
    def start(self, config):
        self.settings = CONFIG.parse(config)
        offset = self.context.offset({{"counter": "main"}})
        self.count = 0 if offset is None else offset["count"]

    def poll(self):
        time.sleep(self.settings["pause.ms"] / 1000)
        self.count += 1
        return [
            SourceRecord(
                topic=self.settings["topic"],
                value=self.count,
                source_partition={{"counter": "main"}},
                source_offset={{"count": self.count}},
            )
        ]


class {name}Connector(SourceConnector):
    task_class = {name}Task

    @classmethod
    def config(cls):
        return CONFIG

    def start(self, config):
        self.given = config

    def task_configs(self, max_tasks):
        return [self.given]
'''
_TEST = """from {module} import {name}Connector
from odradek.testing.connectors import SourceHarness


def test_it_counts_and_goes_on_where_it_stopped():
    with SourceHarness({name}Connector, {{"topic": "numbers", "pause.ms": "1"}}) as source:
        assert [record.value for record in source.take(3)] == [1, 2, 3]
        source.commit()
        source.restart()
        assert [record.value for record in source.take(1)] == [4]
"""
_PROJECT = """[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "{package}"
version = "0.1.0"
dependencies = ["odradek[connect]"]

[project.entry-points."odradek.connect"]
{module} = "{module}:{name}Connector"

[tool.hatch.build.targets.wheel]
include = ["{module}.py"]
"""


@click.command()
@click.argument("name")
def new(name: str) -> None:
    """Make a directory NAME with a connector, a test and a pyproject.toml.

    NAME is in lower case, with hyphens between words.

    \b
    Example:
      odradek connect new heart-beats
    """
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name):
        raise click.UsageError(f"{name!r}: write a name like heart-beats")
    directory = Path(name)
    words = {
        "package": name,
        "module": name.replace("-", "_"),
        "name": "".join(each.capitalize() for each in name.split("-")),
    }
    try:
        directory.mkdir()
    except OSError as error:
        raise click.ClickException(f"{directory} cannot be made: {error.strerror}") from error
    files = {
        f"{words['module']}.py": _CONNECTOR,
        f"test_{words['module']}.py": _TEST,
        "pyproject.toml": _PROJECT,
    }
    for file, text in files.items():
        (directory / file).write_text(text.format(**words), encoding="utf-8")
    click.echo(f"made {directory}. Next: cd {directory}; pytest; pip install .", err=True)
