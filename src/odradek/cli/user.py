"""`odradek user`: users with SCRAM credentials."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Callable

import click

from odradek.cli.options import CommandT, cluster_options, connected, json_option
from odradek.cli.output import Column, confirm, end_with_errors, note, print_json, print_table
from odradek.client.admin.users import (
    NewCredential,
    describe_users,
    remove_credential,
    set_credential,
)
from odradek.client.errors import ClientError
from odradek.core.sasl.scram_keys import BY_NAME, ITERATIONS_MAX, ITERATIONS_MIN

MECHANISM_DEFAULT = "SCRAM-SHA-512"
SALT_BYTES = 20
PASSWORD_BYTES = 18


@click.group()
def user() -> None:
    """List, add and remove users with a password (SCRAM).

    The listener must enable the mechanism: sasl.enabled.mechanisms=SCRAM-SHA-512.

    \b
    Examples:
      odradek user list
      odradek user add alice
      odradek user remove alice
    """


def _mechanism_option(help_text: str, default: str | None = None) -> Callable[[CommandT], CommandT]:
    return click.option(
        "--mechanism",
        "-m",
        type=click.Choice(list(BY_NAME), case_sensitive=False),
        default=default,
        help=help_text,
    )


@user.command("list")
@json_option
@cluster_options
def list_command(as_json: bool) -> None:
    """List the users with their mechanisms.

    \b
    Example:
      odradek user list
    """
    _show(None, as_json)


@user.command()
@click.argument("names", metavar="USER…", nargs=-1, required=True)
@json_option
@cluster_options
def describe(names: tuple[str, ...], as_json: bool) -> None:
    """Show the mechanisms and iterations of users.

    \b
    Example:
      odradek user describe alice
    """
    _show(names, as_json)


def _show(names: tuple[str, ...] | None, as_json: bool) -> None:
    with connected() as cluster:
        found = describe_users(cluster, names)
    rows = [
        (name, mechanism, iterations)
        for name, credentials in found.items()
        if not isinstance(credentials, ClientError)
        for mechanism, iterations in credentials.items()
    ]
    if as_json:
        keys = ("user", "mechanism", "iterations")
        print_json([dict(zip(keys, row, strict=True)) for row in rows])
    elif rows:
        print_table([Column("User"), Column("Mechanism"), Column("Iterations", right=True)], rows)
    elif names is None:
        note("There are no users with SCRAM credentials. Add one: odradek user add NAME")
    end_with_errors([each for each in found.values() if isinstance(each, ClientError)])


@user.command()
@click.argument("name", metavar="USER")
@_mechanism_option(f"The mechanism.  [default: {MECHANISM_DEFAULT}]", MECHANISM_DEFAULT)
@click.option(
    "--iterations",
    type=click.IntRange(ITERATIONS_MIN, ITERATIONS_MAX),
    default=ITERATIONS_MIN,
    help=f"How often the password is hashed.  [default: {ITERATIONS_MIN}]",
)
@click.option("--generate", is_flag=True, help="Choose a random password, and print it.")
@cluster_options
def add(name: str, mechanism: str, iterations: int, generate: bool) -> None:
    """Add a user, or change the password of a user.

    The command asks for the password on a terminal. Otherwise it reads one line of the input. The
    password itself is not sent to the broker, but what is sent is enough to log in. So use a
    listener with TLS.

    \b
    Examples:
      odradek user add alice
      odradek user add alice --generate
      odradek user add alice < password.txt
    """
    if generate:
        password = secrets.token_urlsafe(PASSWORD_BYTES)
    elif sys.stdin.isatty():
        password = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    else:
        password = sys.stdin.readline().rstrip("\r\n")
    if not password:
        raise click.UsageError("the password is empty; write it to the input, or use --generate")
    credential = NewCredential(mechanism, password, secrets.token_bytes(SALT_BYTES), iterations)
    with connected() as cluster:
        set_credential(cluster, name, credential)
    if generate:
        click.echo(password)
    note(f"{name} can log in with {mechanism}.")


@user.command()
@click.argument("name", metavar="USER")
@_mechanism_option("Only the credential for this mechanism.  [default: all]")
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
@cluster_options
def remove(name: str, mechanism: str | None, yes: bool) -> None:
    """Remove a user, or one credential of a user. Open connections stay open.

    \b
    Example:
      odradek user remove alice --yes
    """
    confirm(f"Remove {mechanism or 'all credentials'} of {name}?", yes=yes)
    with connected() as cluster:
        if mechanism is not None:
            mechanisms = [mechanism]
        else:
            found = describe_users(cluster, [name])[name]
            if isinstance(found, ClientError):
                raise found
            mechanisms = list(found)
        for each in mechanisms:
            remove_credential(cluster, name, each)
    note(f"Removed {', '.join(mechanisms)} of {name}.")
