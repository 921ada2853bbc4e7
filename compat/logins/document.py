"""Writes docs/login-errors.md: `python -m compat.logins.document`. A test compares the file."""

from __future__ import annotations

from collections.abc import Iterable

from compat.lab.apache_kafka import ApacheKafka
from compat.lab.odradek_node import OdradekNode
from compat.lab.toolchain import ROOT
from compat.logins.play import expected
from compat.logins.table import CLIENTS, RIGHT, ROWS, Row

DOCUMENT = ROOT / "docs" / "login-errors.md"
TITLES = {"java": "Java", "librdkafka": "librdkafka"}
_MEANINGLESS = "Asn1Exception: "
"""Java names it as the last cause of each error of the KDC."""
_HEAD = """\
# Errors of logins

What clients say if a broker refuses their credentials. `make compat` lets each client log in with each of these
credentials, and compares what it says. Right credentials are accepted; wrong ones are refused with the same errors as
by {apache}, except that OpenSSL's alerts about certificates of clients are more precise than Java's,
and that a client of Kerberos gets an error if no rule applies to its name.

This page is made by `python -m compat.logins.document` from `compat/logins/expected.json`, which
`python -m compat.logins` records with {apache}. The logins with GSSAPI need the package gssapi, and
are skipped without it ([Kerberos](kerberos.md)).

## Protocols and mechanisms

Each number is the number of wrong credentials that were tried besides the right ones; `-` means that the client does
not have the mechanism. librdkafka has GSSAPI if it is built with libsasl2. The wheels of confluent-kafka are not, and
then these logins are skipped; what is shown here was said by librdkafka 2.12.1 with libsasl2 ([Kerberos](kerberos.md)).
Odradek's own client, blocking (odradek) and for asyncio (odradek-aio), has GSSAPI, too, but was not recorded with it.
"""
_NOTES = """
aiokafka logs the second message, and does not show errors of OAUTHBEARER. franz-go does not show the reason for which
a token is refused. The broker's log has the reason (`failed authentication`), never the token or the password."""


def text() -> str:
    """Return the document."""
    parts = [_HEAD.format(apache=ApacheKafka.name), *_summary(), _NOTES]
    names = [row.name for row in ROWS]
    for row in ROWS:
        if row.name.startswith("SASL_SSL"):
            continue  # the errors are those of SASL_PLAINTEXT
        name = row.name
        if name.replace("SASL_PLAINTEXT", "SASL_SSL") in names:
            name = name.replace("SASL_PLAINTEXT", "SASL_PLAINTEXT and SASL_SSL")
        parts += [f"\n## {name}", *_errors(row)]
    return "\n".join(parts).rstrip() + "\n"


def write() -> None:
    """Write the document."""
    DOCUMENT.write_text(text(), encoding="utf-8")


def _summary() -> Iterable[str]:
    said = expected(OdradekNode.name)
    yield _line("", *(TITLES.get(each, each) for each in CLIENTS))
    yield _line(*["---"] * (len(CLIENTS) + 1))
    for row in ROWS:
        cases = said[row.name]
        counts = (sum(client in each for each in cases.values()) - 1 for client in CLIENTS)
        yield _line(row.name, *("-" if each < 0 else str(each) for each in counts))


def _errors(row: Row) -> Iterable[str]:
    said = expected(OdradekNode.name)[row.name]
    for case, by_client in said.items():
        if case == RIGHT:
            continue
        yield f"\n{case}:\n"
        for client, said_by_client in by_client.items():
            messages = [each for each in said_by_client if not each.startswith(_MEANINGLESS)]
            shown = messages[:1] if len(messages) == 1 else [messages[0], messages[-1]]
            yield f"- {TITLES.get(client, client)}: " + " … ".join(f"`{each}`" for each in shown)


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    write()
