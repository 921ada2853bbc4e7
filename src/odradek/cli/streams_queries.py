"""The commands query and status of `odradek streams`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from odradek.cli.options import command_config_option, json_option
from odradek.cli.output import Column, note, number, print_json, print_table
from odradek.cli.streams_application import FILE, bootstrap_option, connection, load_app

if TYPE_CHECKING:
    from odradek.streams.queries.client import HttpAnswer
    from odradek.streams.queries.status import TaskStatus


@click.command()
@click.argument("words", metavar="[FILE] STORE [KEY]", nargs=-1, required=True)
@click.option(
    "--server",
    metavar="HOST:PORT",
    help="Ask this process (its application_server). Then no FILE is needed.",
)
@click.option("--from", "since", type=int, help="Windows that begin at this time (ms) or later.")
@click.option("--to", "until", type=int, help="Windows that begin at this time (ms) or earlier.")
@click.option("--first", help="The first key of a range.")
@click.option("--last", help="The last key of a range.")
@click.option("--partition", type=int, help="The partition of the key, with another partitioner.")
@click.option("--stale", is_flag=True, help="With KEY: also read what standby tasks have.")
@json_option
@bootstrap_option
@command_config_option
def query(
    words: tuple[str, ...],
    server: str | None,
    as_json: bool,
    bootstrap_server: str | None,
    stale: bool,
    **given: str | int | None,
) -> None:
    """Read a store of an application that runs: the value of KEY, or all keys and values.

    The App in FILE says which application. Any of its processes answers for all keys. They run with
    application_server=HOST:PORT and group_protocol=streams.

    \b
    Examples:
      odradek streams query words.py counts odradek
      odradek streams query words.py counts --first a --last c
      odradek streams query --server 10.0.0.5:8080 counts odradek
    """
    count = len(words) - (server is None)
    if count not in (1, 2):
        raise click.UsageError("write FILE STORE [KEY], or --server HOST:PORT STORE [KEY]")
    store = words[-count]
    names = {"since": "from", "until": "to"}
    parameters = {
        names.get(name, name): str(value) for name, value in given.items() if value is not None
    }
    if stale:
        parameters["stale"] = "true"
    if count == 2:
        parameters["key"] = words[-1]
    hosts = [server] if server is not None else _hosts(words[0], bootstrap_server)
    answer = _first_answer(hosts, f"/stores/{store}", parameters)
    if answer.status != 200:
        raise click.ClickException(_problem(answer))
    if as_json:
        print_json(answer.body)
    elif "value" in answer.body:
        click.echo(_shown(answer.body["value"]))
    else:
        _print_rows(answer.body)


def _hosts(file: str, bootstrap_server: str | None) -> list[str]:
    from odradek.client.admin.admin import Admin
    from odradek.streams.queries.errors import QueryError
    from odradek.streams.queries.status import endpoints

    app = load_app(Path(FILE.convert(file, None, click.get_current_context())))
    with Admin(connection(app, bootstrap_server)) as admin:
        try:
            return endpoints(admin, app.application_id)
        except QueryError as error:
            raise click.ClickException(str(error)) from error


def _first_answer(hosts: list[str], path: str, parameters: dict[str, str]) -> HttpAnswer:
    """Return the answer of the first process that can be reached."""
    from odradek.streams.queries.client import ask
    from odradek.streams.queries.errors import QueryError

    problem = ""
    for host in hosts:
        try:
            return ask(host, path, parameters, 30.0)
        except QueryError as error:
            problem = str(error)
    raise click.ClickException(problem)


def _problem(answer: HttpAnswer) -> str:
    body = answer.body
    return str(body.get("error", body)) if isinstance(body, dict) else str(body)


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _print_rows(body: dict[str, Any]) -> None:
    columns = [Column("Key"), Column("Value")]
    rows = [(_shown(each["key"]), _shown(each["value"])) for each in body.get("entries", ())]
    for each in body.get("windows", ()):
        columns = [Column("Window (ms)"), Column("Value")]
        rows.append((f"{each['start']} to {each['end']}", _shown(each["value"])))
    print_table(columns, rows)
    if not rows:
        note("There are none.")


@click.command()
@click.argument("file", type=FILE)
@json_option
@bootstrap_option
@command_config_option
def status(file: Path, as_json: bool, bootstrap_server: str | None) -> None:
    """Show the members and tasks of the App in FILE, their lag, and how far stores are restored.

    How far a store is restored is known by processes with an application_server.

    \b
    Examples:
      odradek streams status words.py
      odradek streams status words.py --json
    """
    from odradek.client.admin.admin import Admin
    from odradek.streams.queries.status import read_status

    app = load_app(file)
    with Admin(connection(app, bootstrap_server)) as admin:
        found = read_status(app.topology(), admin)
    if as_json:
        print_json(
            {
                **found._asdict(),
                "members": [each._asdict() for each in found.members],
                "tasks": [each._asdict() for each in found.tasks],
            }
        )
        return
    click.echo(f"{found.group}: {found.type} group, {found.state}")
    print_table(
        [
            Column("Member"),
            Column("Host"),
            Column("Answers queries at"),
            number("Active"),
            number("Standby"),
        ],
        [
            (each.id, each.host, each.endpoint or None, each.active, each.standby)
            for each in found.members
        ],
    )
    print_table(
        [Column("Task"), Column("Role"), Column("Member"), number("Lag"), Column("Restored")],
        [(each.id, each.role, each.member, each.lag, _restored(each)) for each in found.tasks],
    )
    if found.unassigned:
        note(f"No member has the tasks {', '.join(found.unassigned)}.")


def _restored(task: TaskStatus) -> str | None:
    if task.restored is None:
        return None
    end = "?" if task.restored_end is None else str(task.restored_end)
    return f"{task.restored} of {end}"
