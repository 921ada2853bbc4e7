"""`odradek acl`: lists, adds, removes and explains ACLs. `odradek.operations.acls` has the words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import click

from odradek.cli.arguments import parsed
from odradek.cli.options import cluster_options, connected, json_option
from odradek.cli.output import (
    Column,
    confirm,
    note,
    note_none,
    print_fields,
    print_json,
    print_table,
    warn,
)
from odradek.client.admin.acls import create_acls, delete_acls, explain, list_acls
from odradek.core.authorizer.address_ranges import is_range
from odradek.core.authorizer.filters import AclFilter
from odradek.core.metadata.image import AccessControlEntry
from odradek.core.quota.connections import address_of
from odradek.model.acl import (
    WILDCARD,
    AclOperation,
    AclPermissionType,
    AclResourceType,
    PatternType,
)
from odradek.operations.acls import (
    Pattern,
    acl_json,
    operation_text,
    parse_operation,
    parse_pattern,
    principal_of,
    reason_text,
    resource_text,
)
from odradek.operations.texts import plural

ANY = "any"


@click.group()
def acl() -> None:
    """List, add, remove and explain ACLs.

    A RESOURCE is topic:NAME, group:NAME, transactional-id:NAME, user:NAME, delegation-token:NAME or
    cluster. A star at the end of the NAME makes it a prefix. A PRINCIPAL without a type is a user.

    \b
    Examples:
      odradek acl list
      odradek acl add alice read,describe topic:flights 'group:jobs-*'
      odradek acl explain alice write topic:flights
      odradek acl remove alice read topic:flights
    """


def _filter(
    principal: str | None, operation: str | None, resource: str | None, host: str | None
) -> AclFilter:
    pattern = None if resource in (None, ANY) else parsed(parse_pattern, str(resource))
    return AclFilter(
        AclResourceType.ANY if pattern is None else pattern.resource_type,
        None if pattern is None else pattern.name,
        PatternType.ANY if pattern is None else pattern.kind,
        None if principal in (None, ANY) else principal_of(str(principal)),
        host,
        AclOperation.ANY if operation in (None, ANY) else parsed(parse_operation, str(operation)),
        AclPermissionType.ANY,
    )


def _print_entries(entries: Iterable[AccessControlEntry], indent: int = 0) -> None:
    columns = [
        Column(each) for each in ("Principal", "Permission", "Operation", "Resource", "Host")
    ]
    rows = [
        (
            each.principal,
            AclPermissionType(each.permission_type).name.lower(),
            operation_text(each.operation),
            resource_text(each.resource_type, each.resource_name, each.pattern_type),
            each.host,
        )
        for each in entries
    ]
    print_table(columns, rows, indent=indent)


# -- commands ---------------------------------------------------------------------------------


@acl.command("list")
@click.option("--principal", "-p", metavar="PRINCIPAL", help="Only ACLs of this principal.")
@click.option("--resource", "-r", metavar="RESOURCE", help="Only ACLs with exactly this resource.")
@click.option(
    "--applying-to",
    metavar="RESOURCE",
    help="All ACLs that apply to this resource, also ACLs of prefixes and of `*`.",
)
@json_option
@cluster_options
def list_command(
    principal: str | None, resource: str | None, applying_to: str | None, as_json: bool
) -> None:
    """List the ACLs.

    \b
    Examples:
      odradek acl list --principal alice
      odradek acl list --applying-to topic:flights
    """
    if resource is not None and applying_to is not None:
        raise click.UsageError("--resource and --applying-to cannot be used together")
    wanted = _filter(principal, None, applying_to or resource, None)
    if applying_to is not None:
        if wanted.pattern_type is PatternType.PREFIXED:
            raise click.UsageError("--applying-to needs the name of a resource, not a prefix")
        wanted = wanted._replace(pattern_type=PatternType.MATCH)
    with connected() as cluster:
        found = list_acls(cluster, wanted)
        in_all = 0 if found else len(list_acls(cluster, _filter(None, None, None, None)))
    if as_json:
        print_json([acl_json(each) for each in found])
    elif found:
        _print_entries(found)
    else:
        note_none("ACLs", in_all)


_principal_argument = click.argument("principal", metavar="PRINCIPAL")
_host_option = click.option(
    "--host",
    default=WILDCARD,
    help="Only from this address, or this range of addresses such as 10.0.0.0/8.  "
    "[default: any address]",
)


@acl.command()
@_principal_argument
@click.argument("operations", metavar="OPERATION,…")
@click.argument("resources", metavar="RESOURCE…", nargs=-1, required=True)
@click.option("--deny", is_flag=True, help="Deny the operations. Denials have precedence.")
@_host_option
@cluster_options
def add(principal: str, operations: str, resources: tuple[str, ...], deny: bool, host: str) -> None:
    """Allow a principal to do something, or deny it.

    The principal `User:*` stands for everyone. The operation `all` stands for all operations.

    \b
    Examples:
      odradek acl add alice read,describe topic:flights 'group:jobs-*'
      odradek acl add alice all 'topic:alice-*'
      odradek acl add mallory all cluster --deny
    """
    permission = AclPermissionType.DENY if deny else AclPermissionType.ALLOW
    patterns = [parsed(parse_pattern, each) for each in resources]
    wanted = [parsed(parse_operation, each) for each in operations.split(",")]
    entries = [
        AccessControlEntry(
            pattern.resource_type,
            pattern.name,
            pattern.kind,
            principal_of(principal),
            host,
            operation,
            permission,
        )
        for pattern in patterns
        for operation in wanted
    ]
    if host != WILDCARD and address_of(host) is None and not is_range(host):
        warn(
            f"{host} is not the address of a client, so no client will match: write an IP address "
            "or a range such as 10.0.0.0/8, not a name"
        )
    with connected() as cluster:
        create_acls(cluster, entries)
    _print_entries(entries)


@acl.command()
@_principal_argument
@click.argument("operation", metavar="OPERATION")
@click.argument("resource", metavar="RESOURCE")
@click.option("--host", help="Only ACLs with this host.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
@cluster_options
def remove(principal: str, operation: str, resource: str, host: str | None, yes: bool) -> None:
    """Remove ACLs, both permissions and denials. `any` selects every principal or operation.

    \b
    Examples:
      odradek acl remove alice read topic:flights
      odradek acl remove alice any any --yes
    """
    wanted = _filter(principal, operation, resource, host)
    with connected() as cluster:
        found = list_acls(cluster, wanted)
        if not found:
            note("No ACL is selected. See which there are: odradek acl list")
            click.get_current_context().exit(1)
        _print_entries(found)
        confirm(f"Remove {plural(len(found), 'ACL')}?", yes=yes)
        count = delete_acls(cluster, wanted)
    note(f"Removed {plural(count, 'ACL')}.")


@acl.command("explain")
@_principal_argument
@click.argument("operation", metavar="OPERATION")
@click.argument("resource", metavar="RESOURCE")
@click.option(
    "--host", default="127.0.0.1", help="The address of the client.  [default: 127.0.0.1]"
)
@json_option
@cluster_options
def explain_command(
    principal: str, operation: str, resource: str, host: str, as_json: bool
) -> None:
    """Show whether a principal may do something, which rule decides, and why.

    \b
    Examples:
      odradek acl explain alice write topic:flights
      odradek acl explain alice read group:jobs-1 --host 10.0.0.7
    """
    pattern, wanted = parsed(parse_pattern, resource), parsed(parse_operation, operation)
    if pattern.kind is PatternType.PREFIXED or pattern.name == WILDCARD:
        raise click.UsageError(f"{resource!r}: write the name of one resource")
    if wanted is AclOperation.ALL:
        raise click.UsageError("write one operation, such as read")
    who = principal_of(principal)
    with connected() as cluster:
        found = explain(cluster, who, host, wanted, pattern.resource_type, pattern.name)
    reason = reason_text(found, wanted)
    if as_json:
        entry = None if found.rule is None else found.rule.entry
        print_json(
            {
                "allowed": found.is_allowed,
                "rule": None if found.rule is None else found.rule.name,
                "acl": None if entry is None else acl_json(entry),
                "reason": reason,
                "hidden_settings": list(found.hidden),
                "applying": [acl_json(each) for each in found.applying],
            }
        )
        return
    verb = "may" if found.is_allowed else "may not"
    print_fields(
        [
            ("Verdict", f"{who} at {host} {verb} {operation_text(wanted)} {pattern}"),
            ("Reason", reason),
        ]
    )
    if found.hidden:
        note(
            f"The broker does not show {' and '.join(found.hidden)}, so another rule may decide: "
            "super users may do everything."
        )
    _print_applying(found.applying, pattern)


def _print_applying(applying: Sequence[AccessControlEntry], pattern: Pattern) -> None:
    if applying:
        click.echo(f"\nACLs that apply to {pattern}:")
        _print_entries(applying, indent=2)
