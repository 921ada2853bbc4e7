"""`odradek quota`: lists, sets, removes and explains the quotas of clients."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

import click

from odradek.cli.arguments import parse_pairs, parsed
from odradek.cli.options import cluster_options, connected, json_option
from odradek.cli.output import Column, end_with_errors, note_none, number, print_json, print_table
from odradek.client.admin.quotas import (
    CLIENT_ID,
    IP,
    USER,
    Entity,
    alter_quotas,
    describe_quotas,
    entity_text,
)
from odradek.client.errors import ClientError
from odradek.core.quota.connections import address_of
from odradek.operations.quotas import applying, order, parse_value, quotas_of, value_text
from odradek.operations.suggestions import did_you_mean
from odradek.operations.texts import plural

CommandT = TypeVar("CommandT", bound=Callable[..., Any])


@click.group()
def quota() -> None:
    """Show and change the quotas of clients.

    A quota belongs to a user, a client id, a user with a client id, or an IP address. The defaults
    apply to all others. The most specific quota counts for a client: `describe` shows which.

    \b
    Quotas of users and client ids:
      producer_byte_rate        bytes per second that are produced
      consumer_byte_rate        bytes per second that are fetched
      request_percentage        percent of the time of a broker
      controller_mutation_rate  partitions per second that are created or deleted
    Quota of IP addresses:
      connection_creation_rate  new connections per second

    \b
    Examples:
      odradek quota set --user alice producer_byte_rate=10MB consumer_byte_rate=20MB
      odradek quota list
      odradek quota describe --user alice --client-id etl
      odradek quota remove --user alice producer_byte_rate
    """


def entity_options(command: CommandT) -> CommandT:
    """The options that name an entity."""
    for kind, metavar in ((IP, "ADDRESS"), (CLIENT_ID, "ID"), (USER, "NAME")):
        name = kind.replace("-", "_")
        command = click.option(
            f"--{kind}-default",
            f"{name}_default",
            is_flag=True,
            help=f"The default of every {kind}.",
        )(command)
        command = click.option(f"--{kind}", name, metavar=metavar, help=f"This {kind}.")(command)
    return command


def _parts(options: Mapping[str, Any]) -> dict[str, str | None]:
    """Return the named parts of an entity; None is the default."""
    parts: dict[str, str | None] = {}
    for kind in (USER, CLIENT_ID, IP):
        name = kind.replace("-", "_")
        if options[name] is not None and options[f"{name}_default"]:
            raise click.UsageError(f"name either --{kind} or --{kind}-default")
        if options[name] is not None:
            parts[kind] = options[name]
        elif options[f"{name}_default"]:
            parts[kind] = None
    if IP in parts and len(parts) > 1:
        raise click.UsageError("an address has quotas of its own: name neither user nor client id")
    address = parts.get(IP)
    if address is not None and address_of(address) is None:
        raise click.UsageError(f"{address!r} is not an IP address")
    return parts


def _entity(options: Mapping[str, Any]) -> Entity:
    parts = _parts(options)
    if not parts:
        raise click.UsageError("name an entity: --user, --client-id, --ip, or a default of these")
    return tuple(sorted(parts.items()))


@quota.command("list")
@entity_options
@json_option
@cluster_options
def list_command(as_json: bool, **options: Any) -> None:
    """List quotas. Options select the entities that have these names.

    \b
    Examples:
      odradek quota list
      odradek quota list --user alice
      odradek quota list --client-id-default --json
    """
    parts = _parts(options)
    with connected() as cluster:
        found = describe_quotas(cluster, parts)
        in_all = len(found) if found or not parts else len(describe_quotas(cluster))
    entities = sorted(found.items(), key=lambda item: order(item[0]))
    if as_json:
        print_json([{"entity": dict(entity), "quotas": values} for entity, values in entities])
        return
    rows = [
        (entity_text(entity), name, value_text(value))
        for entity, values in entities
        for name, value in sorted(values.items())
    ]
    if rows:
        print_table((Column("Entity"), Column("Quota", wrap=False), number("Value")), rows)
    else:
        note_none("quotas", in_all)


@quota.command()
@click.option("--user", metavar="NAME", default="ANONYMOUS", show_default=True, help="The user.")
@click.option("--client-id", metavar="ID", default="", help="The client id, none by default.")
@json_option
@cluster_options
def describe(user: str, client_id: str, as_json: bool) -> None:
    """Show which quotas apply to a client, and to which entity each belongs.

    \b
    Examples:
      odradek quota describe --user alice --client-id etl
      odradek quota describe --client-id etl --json
    """
    with connected() as cluster:
        entities = describe_quotas(cluster)
    found = applying(entities, user, client_id)
    if as_json:
        print_json(
            {
                name: {"value": value, "entity": dict(entity), "shared_by": shared}
                for name, (entity, value, shared) in found.items()
            }
        )
        return
    rows = [
        (name, value_text(value), entity_text(entity), shared)
        for name, (entity, value, shared) in found.items()
    ]
    if rows:
        columns = (Column("Quota", wrap=False), number("Value"), Column("Of"), Column("Shared by"))
        print_table(columns, rows)
    else:
        note_none("quotas", len(entities))


@quota.command("set")
@entity_options
@click.argument("pairs", metavar="QUOTA=VALUE…", nargs=-1, required=True)
@click.option("--validate-only", is_flag=True, help="Only check whether the change is possible.")
@cluster_options
def set_command(pairs: tuple[str, ...], validate_only: bool, **options: Any) -> None:
    """Set quotas of an entity. Byte rates may have a unit: kB, MB, GB, KiB, MiB or GiB.

    A rate counts for each broker, not for the cluster; only controller_mutation_rate counts for the
    cluster.

    \b
    Examples:
      odradek quota set --user alice --client-id etl producer_byte_rate=10MB
      odradek quota set --client-id-default request_percentage=50
      odradek quota set --user-default controller_mutation_rate=5
      odradek quota set --ip 10.0.0.7 connection_creation_rate=20
    """
    entity = _entity(options)
    changes = {
        _known(entity, name): parsed(partial(parse_value, name), text)
        for name, text in parse_pairs(pairs).items()
    }
    with connected() as cluster:
        try:
            alter_quotas(cluster, entity, changes, validate_only=validate_only)
        except ClientError as error:
            end_with_errors([error])
    verb = "Could set" if validate_only else "Set"
    click.echo(f"{verb} {plural(len(changes), 'quota')} of {entity_text(entity)}")


def _known(entity: Entity, name: str) -> str:
    """Check the name of a quota.

    Raises:
        UsageError: the entity cannot have this quota.
    """
    known = quotas_of(entity)
    if name not in known:
        meant = did_you_mean(name, known) or f"Known are {', '.join(known)}."
        raise click.UsageError(f"{entity_text(entity)} has no quota {name}. {meant}")
    return name


@quota.command()
@entity_options
@click.argument("names", metavar="[QUOTA]…", nargs=-1)
@cluster_options
def remove(names: tuple[str, ...], **options: Any) -> None:
    """Remove quotas of an entity. Without QUOTA all its quotas are removed.

    \b
    Examples:
      odradek quota remove --user alice producer_byte_rate
      odradek quota remove --user alice
    """
    entity = _entity(options)
    for name in names:
        _known(entity, name)
    with connected() as cluster:
        present = describe_quotas(cluster, dict(entity), strict=True).get(entity, {})
        absent = [name for name in names if name not in present]
        if absent:
            raise click.ClickException(f"{entity_text(entity)} has no {', '.join(absent)}.")
        removed = dict.fromkeys(names or sorted(present))
        if not removed:
            note_none(f"quotas of {entity_text(entity)}", 0)
            return
        try:
            alter_quotas(cluster, entity, removed)
        except ClientError as error:
            end_with_errors([error])
    click.echo(f"Removed {plural(len(removed), 'quota')} of {entity_text(entity)}")
