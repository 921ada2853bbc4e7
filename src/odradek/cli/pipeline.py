"""The commands new, run, list, status and clean of `odradek pipeline`.

The packages pyspark and pyarrow are imported only when a pipeline is run.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from odradek.cli.options import (
    BOOTSTRAP_VARIABLE,
    client_security,
    client_settings,
    command_config_option,
    json_lines_option,
    json_option,
)
from odradek.cli.output import Column, confirm, note, number, print_json, print_table, warn
from odradek.cli.spark_options import check_installed, conf_option
from odradek.cli.values import DURATION

if TYPE_CHECKING:
    from odradek.pipelines.reports import Report
    from odradek.pipelines.runs import QueryState, Run

LAG_TIMEOUT_MS = 5_000


@click.group()
def pipeline() -> None:
    """Run pipelines on Spark, and show those that run.

    \b
    Examples:
      odradek pipeline list
      odradek pipeline run stages --flights 5000
      odradek pipeline new clicks
      odradek pipeline status
    """


@pipeline.command("list")
@json_option
def list_command(as_json: bool) -> None:
    """List the pipelines of the directory `examples` in a clone of Odradek.

    \b
    Example:
      odradek pipeline list
    """
    from odradek.pipelines.catalogue import examples

    found = examples()
    if as_json:
        print_json([{"name": name, "summary": summary} for name, summary in found.items()])
    elif found:
        print_table([Column("Pipeline"), Column("What it does")], found.items())
    else:
        note(
            "The examples are in a clone of Odradek's repository: run the command there. "
            "`odradek pipeline run FILE` runs your own."
        )


@pipeline.command()
@click.argument("name")
def new(name: str) -> None:
    """Make a directory with a new pipeline: a query, a test that runs it, and a README.

    \b
    Examples:
      odradek pipeline new clicks
      odradek pipeline run clicks/clicks.py --input README.md
    """
    from odradek.pipelines import scaffold

    try:
        made = scaffold.create(name, Path())
    except ValueError as error:
        raise click.ClickException(str(error)) from error
    for path in made:
        click.echo(f"Wrote {path}")
    note(f"Run it: odradek pipeline run {name}/{name}.py --input FILE...")


@pipeline.command("run", context_settings={"ignore_unknown_options": True})
@click.argument("name", metavar="PIPELINE")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.option("--master", help="The master of a Spark cluster.  [default: local[*]]")
@click.option(
    "--output",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory of checkpoints, results and the broker's data.  [default: PIPELINE-output]",
)
@click.option(
    "--checkpoints",
    metavar="DIR|URL",
    help="Where checkpoints are, for a cluster on shared storage.  [default: OUTPUT/checkpoints]",
)
@conf_option
@click.option(
    "--grace",
    "grace_ms",
    type=DURATION,
    default="30s",
    show_default=True,
    help="After Ctrl-C or SIGTERM: how long micro-batches may still take.",
)
@click.option(
    "--bootstrap-server",
    "-b",
    metavar="HOST:PORT,…",
    help=f"A running broker.  [default: ${BOOTSTRAP_VARIABLE}, or bootstrap.servers in the file of "
    "--command-config; otherwise a broker is started]",
)
@click.option("--verbose", is_flag=True, help="Show the log of Spark.")
@json_lines_option
@command_config_option
def run_command(
    name: str,
    arguments: tuple[str, ...],
    master: str | None,
    output: Path | None,
    checkpoints: str | None,
    conf: dict[str, str],
    grace_ms: int,
    bootstrap_server: str | None,
    verbose: bool,
    as_json: bool,
) -> None:
    """Run a pipeline: an example, or a file or module with a function `run`.

    Without --bootstrap-server a broker is started, with its data in the output directory. A line is
    printed for each micro-batch: its rows, rows per second, the records left, and its duration. Other
    options are options of the pipeline; `odradek pipeline run NAME -- --help` lists them.

    Ctrl-C and SIGTERM let each query complete its micro-batch. The same command continues from the
    checkpoints. The examples need a new output directory.

    \b
    Examples:
      odradek pipeline run stages --flights 5000
      odradek pipeline run words.py README.md
      odradek pipeline run jobs.words -b broker:9092 --master spark://spark:7077
    """
    check_installed("pipelines")
    from odradek.pipelines import catalogue
    from odradek.pipelines.arguments import Parser
    from odradek.pipelines.catalogue import NoSuchPipelineError, NotAPipelineError

    try:
        found = catalogue.load(name)
    except (NoSuchPipelineError, NotAPipelineError) as error:
        raise click.ClickException(str(error)) from error
    parser = Parser(prog=f"odradek pipeline run {name} --")
    parsed = catalogue.parse(found, parser, [*arguments])
    from odradek.client.security import SECURITY_SETTINGS
    from odradek.pipelines.runner import AlreadyRunningError, OutputExistsError, RunOptions, execute

    settings = client_settings()
    client_security(settings)  # an error of the settings is a usage error
    options = RunOptions(
        output=output or Path(f"{found.name}-output"),
        servers=bootstrap_server or _servers(settings),
        client_settings={key: settings[key] for key in SECURITY_SETTINGS if key in settings},
        master=master,
        checkpoints=checkpoints,
        conf=conf,
        grace_s=grace_ms / 1000,
        as_json=as_json,
        verbose=verbose,
    )
    try:
        code = execute(found, parsed, options)
    except (AlreadyRunningError, OutputExistsError) as error:
        raise click.ClickException(str(error)) from error
    click.get_current_context().exit(code)


_SERVERS = "bootstrap.servers"


def _servers(settings: dict[str, str]) -> str | None:
    """Return the address that was given before the command, or in the environment or the file."""
    given = click.get_current_context().meta.get("odradek.bootstrap_server")
    return given or os.environ.get(BOOTSTRAP_VARIABLE) or settings.get(_SERVERS)


@pipeline.command()
@json_option
@command_config_option
def status(as_json: bool) -> None:
    """Show the pipelines of this user on this machine, with their queries.

    The lag is that of the consumer groups to which a query commits its progress: the number of
    records from the committed offsets to the ends of the partitions. The brokers of each pipeline are
    asked for it. Pipelines that failed or were killed are shown until the same command runs again, their
    output directory is deleted, or `odradek pipeline clean` forgets them.

    \b
    Example:
      odradek pipeline status
    """
    from odradek.pipelines import runs

    found = runs.load_all()
    lags = {id(each): _lags(each) for each in found}
    if as_json:
        print_json([_document(each, lags[id(each)]) for each in found])
    elif not found:
        note("No pipeline runs. `odradek pipeline list` shows those that can be run.")
    else:
        _print_runs(found, lags)


@pipeline.command()
@click.option("--outputs", is_flag=True, help="Also delete the output directories of these runs.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
def clean(outputs: bool, yes: bool) -> None:
    """Forget the pipelines that failed or were killed; `status` does not show them any more.

    With --outputs their output directories are deleted, with checkpoints, results, and the data of a
    broker that they have started. Topics on other brokers stay.

    \b
    Examples:
      odradek pipeline clean
      odradek pipeline clean --outputs
    """
    import shutil

    from odradek.pipelines import runs

    ended = [each for each in runs.load_all() if each.has_ended]
    if not ended:
        note("No pipeline has failed or was killed.")
        return
    if outputs:
        confirm(f"Delete {', '.join(each.output for each in ended)}?", yes=yes)
    for each in runs.forget_ended():
        if outputs:
            shutil.rmtree(each.output, ignore_errors=True)
        click.echo(f"{'Deleted' if outputs else 'Forgot'} {each.name} in {each.output}")


def _print_runs(found: list[Run], lags: dict[int, dict[str, int | None]]) -> None:
    columns = [Column("Pipeline"), Column("State"), number("Process"), Column("Servers")]
    print_table(
        [*columns, Column("Output")],
        ([r.name, r.state, r.process_id, r.servers, r.output] for r in found),
    )
    rows = [
        [run.name, *_last_batch(query.last), lags[id(run)][key], query.checkpoint]
        for run in found
        for key, query in run.queries.items()
    ]
    if rows:
        click.echo()
        columns = [Column("Pipeline"), Column("Query"), number("Batch"), Column("Began")]
        columns += [number("Rows"), number("Rows/s"), number("Seconds"), number("Lag")]
        print_table([*columns, Column("Checkpoint")], rows)
    for run in found:
        if run.error is not None:
            warn(f"{run.name} failed: {run.error.splitlines()[0]}")


def _last_batch(last: Report) -> list[object]:
    seconds = f"{last.duration_ms / 1000:.2f}"
    return [last.query, last.batch, last.at, last.rows, round(last.rows_per_second), seconds]


def _document(run: Run, lags: dict[str, int | None]) -> dict[str, Any]:
    from dataclasses import asdict

    document = asdict(run)
    document["queries"] = [
        {"id": key, **each, "group_lag": lags[key]} for key, each in document["queries"].items()
    ]
    return document


def _lags(run: Run) -> dict[str, int | None]:
    """Return the lag of each query from its groups; None if it is not known."""
    from odradek.client.cluster import Cluster
    from odradek.client.errors import ClientError
    from odradek.pipelines import runs

    lags: dict[str, int | None] = dict.fromkeys(run.queries)
    if run.servers is None or run.state not in {runs.RUNNING, runs.STOPPING}:
        return lags
    try:
        with Cluster(
            run.servers,
            client_id="odradek-cli",
            timeout_ms=LAG_TIMEOUT_MS,
            connect_timeout_ms=LAG_TIMEOUT_MS,
            security=client_security(client_settings()),
        ) as cluster:
            for key, query in run.queries.items():
                lags[key] = _lag(cluster, query)
    except ClientError as error:
        warn(f"the lag of {run.name} is not known: {error}")
    return lags


def _lag(cluster: Any, query: QueryState) -> int | None:
    """Return the lag of a query's groups.

    Raises:
        ClientError: no broker responds.
    """
    from odradek.client.commits import fetch_offsets
    from odradek.client.errors import ClientError
    from odradek.client.offsets import LATEST, list_offsets

    total: int | None = None
    for group in query.groups:
        committed = fetch_offsets(cluster, group)
        ends = list_offsets(cluster, dict.fromkeys(committed, LATEST))
        for partition, at in committed.items():
            end = ends[partition]
            if not isinstance(end, ClientError):
                total = (total or 0) + max(0, end.offset - at.offset)
    return total
