"""The commands of `odradek connect` that ask a worker: those of kcctl."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from odradek.cli.connect_requests import Worker, path_of, shown, worker_option
from odradek.cli.options import json_option
from odradek.cli.output import print_json

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_HEALTH = {"UNASSIGNED": "UNKNOWN", "FAILED": "FAILED"}


def _health(status: dict[str, Any]) -> str:
    """Return FAILED, DEGRADED if some tasks have failed, or the state of the connector."""
    state = str(status["connector"]["state"])
    tasks = [each["state"] for each in status["tasks"]]
    failed = tasks.count("FAILED")
    if state == "FAILED" or (failed and failed == len(tasks)):
        return "FAILED"
    return "DEGRADED" if failed else _HEALTH.get(state, state)


@click.command("ls")
@worker_option
@json_option
def ls(worker: Worker, as_json: bool) -> None:
    """List connectors with their health: DEGRADED means that some of the tasks have failed.

    \b
    Example:
      odradek connect ls
    """
    answer = worker.ask("GET", "/connectors", query={"expand": ["status", "info"]})
    rows = []
    for name, each in sorted(answer.items()):
        status = each.get("status")
        if status is None:
            continue
        each["health"] = _health(status)
        running = sum(task["state"] == "RUNNING" for task in status["tasks"])
        kind = status["type"]
        rows.append([name, kind, each["health"], f"{running}/{len(status['tasks'])}"])
    shown(answer, as_json, ["connector", "type", "health", "running tasks"], rows)


@click.command()
@click.argument("name")
@worker_option
@json_option
def get(name: str, worker: Worker, as_json: bool) -> None:
    """Show a connector: configuration, states, why a task has failed, topics.

    \b
    Example:
      odradek connect get lines
    """
    info = worker.ask("GET", path_of(name))
    status = worker.ask("GET", path_of(name, "/status"))
    topics = worker.ask("GET", path_of(name, "/topics"))
    answer = {**info, "status": status, "health": _health(status), **topics[name]}
    if as_json:
        print_json(answer)
        return
    rows = [["connector", status["connector"]["state"], status["connector"]["worker_id"]]]
    rows += [[f"task {each['id']}", each["state"], each["worker_id"]] for each in status["tasks"]]
    shown(answer, as_json, ["part", "state", "worker"], rows)
    for key, value in sorted(info["config"].items()):
        click.echo(f"{key}={value}")
    if answer["topics"]:
        click.echo(f"topics: {', '.join(sorted(answer['topics']))}")
    for each in [status["connector"], *status["tasks"]]:
        if each.get("trace"):
            click.echo(each["trace"], err=True)


@click.command()
@click.argument("files", type=FILE, nargs=-1, required=True)
@worker_option
@json_option
def apply(files: tuple[Path, ...], worker: Worker, as_json: bool) -> None:
    """Create connectors, or change those that exist, from JSON or properties files.

    \b
    Example:
      odradek connect apply lines.json
    """
    from odradek.connect.standalone import read_connector
    from odradek.core.connect.errors import ConnectError

    answers = []
    for path in files:
        try:
            name, config, state = read_connector(path)
        except ConnectError as error:
            raise click.ClickException(str(error)) from error
        exists = name in worker.ask("GET", "/connectors")
        if exists or state is None:
            answers.append(worker.ask("PUT", path_of(name, "/config"), config))
        else:
            initial = {"name": name, "config": config, "initial_state": state}
            answers.append(worker.ask("POST", "/connectors", initial))
        click.echo(f"{'changed' if exists else 'created'} {name}", err=True)
    if as_json:
        print_json(answers)


def _change(verb: str, text: str) -> click.Command:
    """Return a command that changes the state of connectors."""

    @click.command(verb, help=f"{text}\n\n\b\nExample:\n  odradek connect {verb} lines")
    @click.argument("names", nargs=-1, required=True)
    @worker_option
    @json_option
    def command(names: tuple[str, ...], worker: Worker, as_json: bool) -> None:
        for name in names:
            worker.ask("PUT", path_of(name, f"/{verb}"))
        if as_json:
            print_json([{"name": name, "requested": verb} for name in names])

    return command


pause = _change("pause", "Pause connectors. Their tasks keep their resources.")
resume = _change("resume", "Let connectors that are paused or stopped run again.")
stop = _change("stop", "Stop connectors. Their tasks end; offsets can be changed.")


@click.command()
@click.argument("names", nargs=-1, required=True)
@click.option("--tasks", "includes_tasks", is_flag=True, help="Restart the tasks, too.")
@click.option("--failed", "only_failed", is_flag=True, help="Restart only what has failed.")
@worker_option
@json_option
def restart(
    names: tuple[str, ...], includes_tasks: bool, only_failed: bool, worker: Worker, as_json: bool
) -> None:
    """Restart connectors.

    \b
    Example:
      odradek connect restart lines --tasks --failed
    """
    flags = {"includeTasks": str(includes_tasks).lower(), "onlyFailed": str(only_failed).lower()}
    answers = [worker.ask("POST", path_of(name, "/restart"), query=flags) for name in names]
    if as_json:
        print_json(answers)


@click.command()
@click.argument("names", nargs=-1, required=True)
@worker_option
def delete(names: tuple[str, ...], worker: Worker) -> None:
    """Delete connectors. Offsets and topics stay.

    \b
    Example:
      odradek connect delete lines
    """
    for name in names:
        worker.ask("DELETE", path_of(name))


@click.command()
@click.argument("name")
@click.option("--set", "file", type=FILE, help='Set the offsets in a JSON file: {"offsets": […]}.')
@click.option("--reset", is_flag=True, help="Forget all offsets.")
@worker_option
@json_option
def offsets(name: str, file: Path | None, reset: bool, worker: Worker, as_json: bool) -> None:
    """Show the offsets of a connector; change those of a stopped one.

    What --json prints can be changed and given to --set, also for another connector.

    \b
    Example:
      odradek connect offsets lines --json
    """
    if reset and file is not None:
        raise click.UsageError("--set and --reset exclude each other")
    path = path_of(name, "/offsets")
    if reset or file is not None:
        body = None
        if file is not None:
            try:
                body = json.loads(file.read_bytes())
            except ValueError as error:
                raise click.ClickException(f"{file} is not JSON: {error}") from error
        click.echo(worker.ask("DELETE" if reset else "PATCH", path, body)["message"], err=True)
        return
    answer = worker.ask("GET", path)
    rows = [
        [json.dumps(each["partition"]), json.dumps(each["offset"])] for each in answer["offsets"]
    ]
    shown(answer, as_json, ["partition", "offset"], rows)


@click.command()
@click.argument("name", required=False)
@click.option("--all", "shows_all", is_flag=True, help="Show converters and transforms, too.")
@worker_option
@json_option
def plugins(name: str | None, shows_all: bool, worker: Worker, as_json: bool) -> None:
    """List the plugins of a worker, or the settings of the plugin NAME.

    \b
    Example:
      odradek connect plugins FileStreamSource
    """
    if name is not None:
        answer = worker.ask("GET", f"/connector-plugins/{name}/config")
        rows = [
            [
                e["name"],
                e["type"],
                "required" if e["required"] else e["default_value"],
                e["documentation"],
            ]
            for e in answer
        ]
        shown(answer, as_json, ["setting", "type", "default", "meaning"], rows)
        return
    flag = "false" if shows_all else "true"
    answer = worker.ask("GET", "/connector-plugins", query={"connectorsOnly": flag})
    rows = [[each["class"], each["type"], each["version"]] for each in answer]
    shown(answer, as_json, ["class", "type", "version"], rows)


@click.command()
@click.argument("file", type=FILE)
@worker_option
@json_option
@click.pass_context
def validate(context: click.Context, file: Path, worker: Worker, as_json: bool) -> None:
    """Validate the configuration of a connector; exit with 1 if it is wrong.

    \b
    Example:
      odradek connect validate lines.json
    """
    from odradek.connect.standalone import read_connector
    from odradek.core.connect.errors import ConnectError

    try:
        _, config, _ = read_connector(file)
    except ConnectError as error:
        raise click.ClickException(str(error)) from error
    plugin = str(config.get("connector.class") or "").rpartition(".")[2]
    if not plugin:
        raise click.ClickException(f"{file} has no connector.class")
    answer = worker.ask("PUT", f"/connector-plugins/{plugin}/config/validate", config)
    if as_json:
        print_json(answer)
    for each in answer["configs"]:
        for message in each["value"]["errors"]:
            click.echo(f"{each['value']['name']}: {message}", err=True)
    if answer["error_count"]:
        context.exit(1)


@click.command()
@click.argument("name", required=False)
@click.argument("level", required=False)
@worker_option
@json_option
def loggers(name: str | None, level: str | None, worker: Worker, as_json: bool) -> None:
    """Show the levels of loggers, or set the level of the logger NAME.

    \b
    Example:
      odradek connect loggers odradek.connect debug
    """
    if name is not None and level is not None:
        answer = worker.ask("PUT", f"/admin/loggers/{name}", {"level": level})
        shown(answer, as_json, ["changed"], [[each] for each in answer])
        return
    found = worker.ask("GET", "/admin/loggers" if name is None else f"/admin/loggers/{name}")
    listed = found if name is None else {name: found}
    rows = [[each, shown_level["level"]] for each, shown_level in listed.items()]
    shown(found, as_json, ["logger", "level"], rows)


VERBS = (ls, get, apply, pause, resume, stop, restart, delete, offsets, plugins, validate, loggers)
