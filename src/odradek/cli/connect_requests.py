"""Requests of `odradek connect` to a worker, and how their answers are printed."""

from __future__ import annotations

import functools
import json
import os
import ssl
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast
from urllib.parse import quote

import click

from odradek.cli.output import Column, print_json, print_table

URL_VARIABLE = "ODRADEK_CONNECT_URL"
USER_VARIABLE = "ODRADEK_CONNECT_USER"
FILE = click.Path(exists=True, dir_okay=False)
URL_DEFAULT = "http://localhost:8083"
_RETRIES = 10
_PAUSE_SECONDS = 0.5

CommandT = TypeVar("CommandT", bound=Callable[..., Any])


def worker_option(command: CommandT) -> CommandT:
    """The option `--url` and those of TLS and the login, which are passed together as `worker`."""

    @functools.wraps(command)
    def with_worker(
        *arguments: Any,
        url: str,
        ca: str | None,
        cert: str | None,
        key: str | None,
        user: str | None,
        **others: Any,
    ) -> Any:
        return command(*arguments, worker=Worker(url, ca, cert, key, user), **others)

    options = (
        click.option(
            "--url",
            metavar="URL",
            default=lambda: os.environ.get(URL_VARIABLE, URL_DEFAULT),
            help=f"The REST API of a worker.  [default: ${URL_VARIABLE} or {URL_DEFAULT}]",
        ),
        click.option("--ca", type=FILE, help="The certificates that are trusted, in PEM."),
        click.option("--cert", type=FILE, help="The certificate of the client, in PEM."),
        click.option("--key", type=FILE, help="Its key, unless --cert has it."),
        click.option(
            "--user",
            metavar="NAME:PASSWORD",
            default=lambda: os.environ.get(USER_VARIABLE),
            help=f"The user, or ${USER_VARIABLE}.",
        ),
    )
    made: Any = with_worker
    for each in reversed(options):
        made = each(made)
    return cast("CommandT", made)


class Worker:
    """The REST API of a worker. Requests are repeated while a rebalance runs (409)."""

    def __init__(
        self,
        url: str,
        ca: str | None = None,
        cert: str | None = None,
        key: str | None = None,
        user: str | None = None,
    ) -> None:
        """`ca`, `cert` and `key` are files in PEM, `user` is `NAME:PASSWORD`.

        Raises:
            ClickException: a file cannot be used.
        """
        self._url = url.rstrip("/")
        name, _, password = (user or "").partition(":")
        self._auth = (name, password) if name else None
        self._verify: ssl.SSLContext | bool = True
        if ca or cert:
            try:
                self._verify = ssl.create_default_context(cafile=ca)
                if cert:
                    self._verify.load_cert_chain(cert, key)
            except (OSError, ssl.SSLError) as error:
                raise click.ClickException(f"--ca, --cert or --key: {error}") from error

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        query: Mapping[str, str | list[str]] | None = None,
    ) -> Any:
        """Send a request, and return the body of the answer; None if it is empty.

        Raises:
            ClickException: the worker cannot be reached, or answers with an error.
        """
        import time

        import httpx

        attempt = 0
        while True:
            try:
                answer = httpx.request(
                    method,
                    self._url + path,
                    json=body,
                    params=query,
                    timeout=100,
                    auth=self._auth,
                    verify=self._verify,
                )
            except httpx.HTTPError as error:
                raise click.ClickException(
                    f"the worker at {self._url} cannot be reached: {error}. Check --url."
                ) from error
            attempt += 1
            is_rebalancing = answer.status_code == httpx.codes.CONFLICT and method != "POST"
            if not is_rebalancing or attempt == _RETRIES:
                break
            time.sleep(_PAUSE_SECONDS)
        found = _json(answer.content)
        if answer.is_error:
            message = found.get("message") if isinstance(found, dict) else None
            raise click.ClickException(f"{answer.status_code}: {message or answer.reason_phrase}")
        return found


def _json(content: bytes) -> Any:
    if not content:
        return None
    try:
        return json.loads(content)
    except ValueError:
        return None


def path_of(name: str, rest: str = "") -> str:
    """Return the path of a connector."""
    return f"/connectors/{quote(name, safe='')}{rest}"


def shown(answer: Any, as_json: bool, columns: list[str], rows: list[list[Any]]) -> None:
    """Print an answer as JSON, or rows as a table."""
    if as_json:
        print_json(answer)
    else:
        print_table([Column(each) for each in columns], rows)
