"""`odradek token`: delegation tokens, with which clients log in instead of a password."""

from __future__ import annotations

import click

from odradek.cli.options import cluster_options, connected, json_option
from odradek.cli.output import (
    Column,
    confirm,
    note,
    note_none,
    print_fields,
    print_json,
    print_table,
)
from odradek.cli.values import DURATION
from odradek.client.admin.tokens import (
    Token,
    create_token,
    describe_tokens,
    expire_token,
    find_token,
    renew_token,
)
from odradek.config.jaas import SCRAM_LOGIN_MODULE
from odradek.core.sasl.scram_keys import BY_NAME
from odradek.operations.texts import time_text

MECHANISM_DEFAULT = "SCRAM-SHA-512"


@click.group()
def token() -> None:
    """List, create, renew and expire delegation tokens.

    A client with a token can do what the token's owner can do, until the token expires. Tokens are
    used with SCRAM. All nodes need the same delegation.token.secret.key, and the client that
    creates a token must be authenticated by a password or a certificate.

    \b
    Examples:
      odradek token create --renewer scheduler --lifetime 7d
      odradek token list
      odradek token renew TOKEN
      odradek token expire TOKEN
    """


def _principal(text: str) -> str:
    return text if ":" in text else f"User:{text}"


_owner_option = click.option(
    "--owner",
    "owners",
    metavar="PRINCIPAL",
    multiple=True,
    help="Only tokens of this owner, requester or renewer. Repeatable.",
)
_token_argument = click.argument("token_id", metavar="TOKEN")
_show_option = click.option("--show-hmac", is_flag=True, help="Show the password of the token.")


@token.command()
@click.option("--owner", metavar="PRINCIPAL", help="The owner of the token.  [default: yourself]")
@click.option(
    "--renewer",
    "renewers",
    metavar="PRINCIPAL",
    multiple=True,
    help="Another user who may renew the token. Repeatable.",
)
@click.option(
    "--lifetime",
    type=DURATION,
    default=None,
    help="How long the token can be renewed.  [default: delegation.token.max.lifetime.ms]",
)
@click.option("--properties", is_flag=True, help="Print the settings of a client with this token.")
@click.option(
    "--mechanism",
    "-m",
    type=click.Choice(list(BY_NAME), case_sensitive=False),
    default=MECHANISM_DEFAULT,
    help=f"The mechanism of the client, for --properties.  [default: {MECHANISM_DEFAULT}]",
)
@json_option
@cluster_options
def create(
    owner: str | None,
    renewers: tuple[str, ...],
    lifetime: int | None,
    properties: bool,
    mechanism: str,
    as_json: bool,
) -> None:
    """Create a token. Its id is the user name, and its HMAC is the password.

    \b
    Examples:
      odradek token create
      odradek token create --owner alice --renewer scheduler --lifetime 2d
      odradek token create --properties > token.properties
    """
    if properties and as_json:
        raise click.UsageError("--properties and --json exclude each other")
    if lifetime == 0:  # in the request it stands for the default
        raise click.UsageError("--lifetime must be longer than nothing")
    with connected() as cluster:
        made = create_token(
            cluster,
            owner=None if owner is None else _principal(owner),
            renewers=[_principal(each) for each in renewers],
            lifetime_ms=-1 if lifetime is None else lifetime,
        )
    if as_json:
        print_json(_json(made, show_hmac=True))
    elif properties:
        click.echo(f"sasl.mechanism={mechanism}")
        click.echo(
            f'sasl.jaas.config={SCRAM_LOGIN_MODULE} required username="{made.id}" '
            f'password="{made.password}" tokenauth="true";'
        )
    else:
        print_fields(_fields(made, show_hmac=True))
        note("Whoever has the HMAC can log in as the owner. `token list` does not show it.")


@token.command("list")
@_owner_option
@json_option
@cluster_options
def list_command(owners: tuple[str, ...], as_json: bool) -> None:
    """List the tokens that you may see, without their HMACs.

    \b
    Examples:
      odradek token list
      odradek token list --owner alice
    """
    with connected() as cluster:
        found = describe_tokens(cluster, [_principal(each) for each in owners] or None)
    if as_json:
        print_json([_json(each, show_hmac=False) for each in found])
    elif found:
        titles = ("Token", "Owner", "Renewers", "Issued", "Expires", "Lives until")
        print_table(
            [Column(each) for each in titles],
            [
                (
                    each.id,
                    each.owner,
                    ", ".join(each.renewers) or None,
                    time_text(each.issued_ms),
                    time_text(each.expires_ms),
                    time_text(each.lives_until_ms),
                )
                for each in found
            ],
        )
    else:
        note_none("tokens", 0)


@token.command()
@_token_argument
@_show_option
@json_option
@cluster_options
def describe(token_id: str, show_hmac: bool, as_json: bool) -> None:
    """Show a token.

    \b
    Example:
      odradek token describe TOKEN
    """
    with connected() as cluster:
        found = find_token(cluster, token_id)
    if as_json:
        print_json(_json(found, show_hmac=show_hmac))
    else:
        print_fields(_fields(found, show_hmac=show_hmac))


@token.command()
@_token_argument
@click.option(
    "--for",
    "period",
    type=DURATION,
    default=None,
    help="How long from now.  [default: delegation.token.expiry.time.ms]",
)
@cluster_options
def renew(token_id: str, period: int | None) -> None:
    """Let a token expire later, at most at the end of its lifetime.

    \b
    Examples:
      odradek token renew TOKEN
      odradek token renew TOKEN --for 12h
    """
    if period == 0:  # in the request it stands for the default
        raise click.UsageError("--for must be longer than nothing")
    with connected() as cluster:
        expires_ms = renew_token(
            cluster, find_token(cluster, token_id), -1 if period is None else period
        )
    note(f"Token {token_id} expires at {time_text(expires_ms)}.")


@token.command()
@_token_argument
@click.option("--after", type=DURATION, default=None, help="How long from now.  [default: at once]")
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
@cluster_options
def expire(token_id: str, after: int | None, yes: bool) -> None:
    """Remove a token, or change when it expires.

    Connections that have logged in with the token keep their session until the time at which the
    token expired when they logged in.

    \b
    Examples:
      odradek token expire TOKEN --yes
      odradek token expire TOKEN --after 10m
    """
    if after is None:
        confirm(f"Remove the token {token_id}?", yes=yes)
    with connected() as cluster:
        found = find_token(cluster, token_id)
        expires_ms = expire_token(cluster, found, -1 if after is None else after)
    if after is None:
        note(f"Removed the token {token_id}.")
    else:
        note(f"Token {token_id} expires at {time_text(expires_ms)}.")


def _fields(each: Token, *, show_hmac: bool) -> list[tuple[str, object]]:
    return [
        ("Token", each.id),
        *([("HMAC", each.password)] if show_hmac else []),
        ("Owner", each.owner),
        ("Requester", each.requester),
        ("Renewers", ", ".join(each.renewers) or None),
        ("Issued", time_text(each.issued_ms)),
        ("Expires", time_text(each.expires_ms)),
        ("Lives until", time_text(each.lives_until_ms)),
    ]


def _json(each: Token, *, show_hmac: bool) -> dict[str, object]:
    return {
        "id": each.id,
        **({"hmac": each.password} if show_hmac else {}),
        "owner": each.owner,
        "requester": each.requester,
        "renewers": list(each.renewers),
        "issued_ms": each.issued_ms,
        "expires_ms": each.expires_ms,
        "lives_until_ms": each.lives_until_ms,
    }
