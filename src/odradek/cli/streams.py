"""The commands run, describe and reset of `odradek streams`.

`streams_queries` has the commands query and status.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from odradek.cli.options import (
    cluster_options,
    command_config_option,
    connected,
    json_option,
)
from odradek.cli.output import note, print_json
from odradek.cli.spark_options import check_installed, conf_option
from odradek.cli.streams_application import FILE, bootstrap_option, connection, load_app
from odradek.cli.streams_queries import query, status


@click.group()
def streams() -> None:
    """Run applications that are written with odradek.streams.

    \b
    Examples:
      odradek streams describe words.py
      odradek streams run words.py
      odradek streams status words.py
      odradek streams query words.py counts odradek
      odradek streams reset words.py --execute
    """


streams.add_command(query)
streams.add_command(status)


@streams.command()
@click.argument("name", metavar="FILE|GROUP")
@click.option(
    "--topology",
    "of_group",
    is_flag=True,
    help="Show the topology of a Streams group that runs, as its members have described it.",
)
@click.option(
    "--svg",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Draw the topology of the App, and write the picture to this file.",
)
@cluster_options
def describe(name: str, of_group: bool, svg: Path | None) -> None:
    """Show the topology of the App in FILE, as Kafka Streams prints it.

    With --topology, show the topology of a group of Kafka Streams 4.4, which the broker keeps if
    group.streams.topology.description.plugin.class is set.

    \b
    Examples:
      odradek streams describe words.py
      odradek streams describe words.py --svg words.svg
      odradek streams describe word-count --topology
    """
    from odradek.operations.streams_topologies import read_topology, topology_text

    if of_group and svg is not None:
        raise click.UsageError("--svg draws the App in a file, without --topology")
    if of_group:
        with connected() as cluster:
            click.echo(topology_text(read_topology(cluster, name)))
        return
    app = load_app(Path(FILE.convert(name, None, click.get_current_context())))
    if svg is None:
        click.echo(app.describe(), nl=False)
        return
    svg.write_text(app.picture(), encoding="utf-8")
    note(f"Wrote {svg}")


@streams.command()
@click.argument("file", type=FILE)
@click.option(
    "--processing-guarantee",
    type=click.Choice(["at_least_once", "exactly_once_v2"]),
    help="[default: at_least_once; on Spark it is always exactly_once_v2]",
)
@click.option(
    "--commit-interval-ms",
    type=click.IntRange(min=1),
    help="How often to commit.  [default: 30000; 100 with exactly_once_v2]",
)
@click.option(
    "--replication-factor",
    type=click.IntRange(min=1),
    help="Of internal topics that are created.  [default: that of the cluster]",
)
@click.option(
    "--group-protocol",
    type=click.Choice(["classic", "streams"]),
    help="Of the group that shares the tasks; streams is KIP-1071.  [default: classic]",
)
@click.option(
    "--application-server",
    metavar="HOST:PORT",
    help="Answer queries there. It needs --group-protocol streams.",
)
@click.option(
    "--on",
    type=click.Choice(["process", "spark"]),
    default="process",
    show_default=True,
    help="spark: as one query of Spark, instead of processes.",
)
@click.option(
    "--master",
    metavar="URL",
    help="Spark's cluster, or local[N].  [default: all cores of this machine]",
)
@click.option(
    "--checkpoint",
    metavar="DIRECTORY",
    help="Of Spark's query. The progress of the application is in its group.  [default: temporary]",
)
@conf_option
@bootstrap_option
@command_config_option
def run(
    file: Path,
    on: str,
    bootstrap_server: str | None,
    conf: dict[str, str],
    **given: str | int | None,
) -> None:
    """Run the App in FILE until Ctrl-C or SIGTERM.

    Internal topics are created. Run the command several times, and the processes share the work. With
    --on spark, it runs once, and Spark shares the work.

    \b
    Examples:
      odradek streams run words.py
      odradek streams run words.py --processing-guarantee exactly_once_v2
      odradek streams run words.py --on spark --master spark://host:7077
    """
    from odradek.core.streams.model.errors import StreamsError

    app = load_app(file)
    wanted = {name: value for name, value in given.items() if value is not None}
    settings: dict[str, Any] = {**connection(app, bootstrap_server), **wanted}
    of_spark = [name for name in ("master", "checkpoint") if name in wanted] + ["conf"] * bool(conf)
    if on == "spark":
        check_installed("applications on Spark")
        settings["conf"] = conf
    elif of_spark:
        raise click.UsageError(f"--{of_spark[0]} needs --on spark")
    note(f"{app.application_id} is running; Ctrl-C ends it.")
    try:
        app.run(on=on, **settings)
    except (StreamsError, ValueError) as error:
        raise click.ClickException(str(error)) from error


@streams.command()
@click.argument("file", type=FILE)
@click.option("--execute", is_flag=True, help="Delete. By default it is only shown.")
@json_option
@bootstrap_option
@command_config_option
def reset(file: Path, execute: bool, as_json: bool, bootstrap_server: str | None) -> None:
    """Let the App in FILE begin again: delete its internal topics and its committed offsets.

    No process of it may be running. Output topics stay as they are.

    \b
    Examples:
      odradek streams reset words.py
      odradek streams reset words.py --execute
    """
    from odradek.streams.process.resetting import reset as reset_application

    app = load_app(file)
    found = reset_application(app.topology(), connection(app, bootstrap_server), execute=execute)
    if as_json:
        print_json({"topics": found.topics, "group": found.has_group, "executed": execute})
        return
    verb = "Deleted" if execute else "Would delete"
    for topic in found.topics:
        click.echo(f"{verb} the topic {topic}")
    if found.has_group:
        click.echo(f"{verb} the group {app.application_id}")
    if not execute and (found.topics or found.has_group):
        note("Nothing is deleted without --execute.")
