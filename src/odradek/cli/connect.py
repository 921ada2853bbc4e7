"""The command `odradek connect`: workers. `connect_verbs` asks those that run."""

from __future__ import annotations

import logging
import signal
import threading
from pathlib import Path
from types import FrameType

import click

from odradek.cli.connect_new import new
from odradek.cli.connect_verbs import VERBS

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_LOOK_SECONDS = 0.2


@click.group()
def connect() -> None:
    """Run connectors, which copy data between Kafka and other systems.

    \b
    Examples:
      odradek connect standalone worker.properties file-source.properties
      odradek connect apply sink.json
      odradek connect ls
    """


for each in (*VERBS, new):
    connect.add_command(each)


@connect.command()
@click.argument("worker", type=FILE)
@click.argument("connectors", type=FILE, nargs=-1)
def standalone(worker: Path, connectors: tuple[Path, ...]) -> None:
    """Run one worker with its connectors. WORKER and CONNECTORS are files as of Apache Kafka.

    Offsets of sources are in the file `offset.storage.file.filename`. The REST API is at port 8083, unless
    `listeners` says otherwise.

    \b
    Example:
      odradek connect standalone worker.properties lines.properties
    """
    _need_extra()
    from odradek.connect.registry import installed_plugins
    from odradek.connect.standalone import StandaloneWorker, read_connector, read_properties
    from odradek.connectors.own import OWN
    from odradek.core.connect.errors import ConnectError

    stopping = _prepared()
    try:
        files = [read_connector(path) for path in connectors]
        running = StandaloneWorker(read_properties(worker), installed_plugins(*OWN))
    except (ConnectError, OSError) as error:
        raise click.ClickException(str(error)) from error
    running.start()
    click.echo(f"The worker is running. REST API: {running.local_url}", err=True)
    try:
        for name, config, state in files:
            running.create(name, config, state)
        stopping.wait()
    except ConnectError as error:
        raise click.ClickException(str(error)) from error
    finally:
        running.stop()


@connect.command()
@click.argument("worker", type=FILE)
def distributed(worker: Path) -> None:
    """Run one worker of a group. WORKER is a file as of Apache Kafka.

    Workers with the same `group.id` and topics share connectors and tasks, and take over those of a worker that
    has ended. Connectors are created with the REST API, or `odradek connect apply`.

    \b
    Example:
      odradek connect distributed worker.properties
    """
    _need_extra()
    from odradek.connect.distributed import DistributedWorker
    from odradek.connect.registry import installed_plugins
    from odradek.connect.standalone import read_properties
    from odradek.connectors.own import OWN
    from odradek.core.connect.errors import ConnectError

    stopping = _prepared()
    try:
        running = DistributedWorker(read_properties(worker), installed_plugins(*OWN))
    except (ConnectError, OSError) as error:
        raise click.ClickException(str(error)) from error
    running.start()
    click.echo(f"The worker is running. REST API: {running.local_url}", err=True)
    while not stopping.wait(_LOOK_SECONDS) and not running.has_ended.is_set():
        pass
    running.stop()
    if running.failure is not None:
        raise click.ClickException(f"the worker has failed: {running.failure}")


@connect.command()
@click.argument("file", type=FILE)
@click.option(
    "--clusters",
    metavar="CLUSTER,…",
    default="",
    help="Run only the flows to these clusters. By default all.",
)
def mirror(file: Path, clusters: str) -> None:
    """Copy topics between clusters, as MirrorMaker 2. FILE is a file as of its dedicated mode.

    \b
    clusters = eu, us
    eu.bootstrap.servers = eu:9092
    us.bootstrap.servers = us:9092
    eu->us.enabled = true
    eu->us.topics = orders, payments.*

    \b
    Example:
      odradek connect mirror mm2.properties
    """
    from odradek.connect.registry import installed_plugins
    from odradek.connect.standalone import read_properties
    from odradek.connectors.mirror.dedicated import MirrorMaker
    from odradek.connectors.own import OWN
    from odradek.core.connect.errors import ConnectError

    stopping = _prepared()
    targets = [each.strip() for each in clusters.split(",") if each.strip()]
    try:
        running = MirrorMaker(read_properties(file), installed_plugins(*OWN), targets)
    except ConnectError as error:
        raise click.ClickException(str(error)) from error
    running.start()
    click.echo(f"Flows: {', '.join(map(str, running.flows))}", err=True)
    while not stopping.wait(_LOOK_SECONDS) and not running.has_ended.is_set():
        pass
    running.stop()
    if running.failure is not None:
        raise click.ClickException(f"a flow has failed: {running.failure}")


def _prepared() -> threading.Event:
    """Return what is set when the worker shall stop."""
    logging.basicConfig(
        level=logging.INFO, format="[%(asctime)s] %(levelname)s %(message)s (%(name)s)"
    )
    stopping = threading.Event()

    def stop(_number: int, _frame: FrameType | None) -> None:
        stopping.set()

    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, stop)
    return stopping


def _need_extra() -> None:
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError:
        raise click.ClickException(
            "odradek connect needs more packages. Install them: pip install 'odradek[connect]'"
        ) from None
