"""The table of logins, what is expected of the clients, and the document about it."""

import pytest
from compat.logins import document
from compat.logins.deviations import DEVIATIONS
from compat.logins.play import expected, stable
from compat.logins.table import CLIENTS, RIGHT, ROWS

WITHOUT_DELEGATION_TOKENS = {"librdkafka", "aiokafka"}
WITHOUT_KERBEROS = {"odradek", "odradek-aio"}
"""Nobody has recorded them where the package gssapi is."""


@pytest.mark.parametrize("broker", ["Odradek", "Apache Kafka 4.3.0"])
def test_it_is_known_what_each_client_says_about_each_case(broker: str) -> None:
    said = expected(broker)
    assert list(said) == [row.name for row in ROWS]
    for row in ROWS:
        assert list(said[row.name]) == [case.name for case in row.cases]
        lacking = WITHOUT_DELEGATION_TOKENS if "delegation" in row.name else set()
        if row.needs_kerberos:
            lacking = WITHOUT_KERBEROS
        for case, by_client in said[row.name].items():
            assert set(by_client) == set(CLIENTS) - lacking
            assert all((messages == []) == (case == RIGHT) for messages in by_client.values())


def test_deviations_are_deviations() -> None:
    theirs = expected("Apache Kafka 4.3.0")
    for (row, case, client), messages in DEVIATIONS.items():
        assert theirs[row][case][client] != list(messages)


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("Connection at 127.0.0.1:2345 closed", "Connection at HOST:PORT closed"),
        ("(after 12ms in state AUTH_REQ)", "(after N ms in state AUTH_REQ)"),
        ("<AIOKafkaConnection host=127.0.0.1 port=9>", "<AIOKafkaConnection host=HOST port=PORT>"),
        ("NotAfter: Mon Nov 23 09:21:11 UTC 2026", "NotAfter: TIME"),
        (
            "open /tmp/x1/kdc/missing.tickets: no such file",
            "open DIRECTORY/missing.tickets: no such file",
        ),
        ("Unable to obtain password from user\n", "Unable to obtain password from user"),
        ('Unable connect to "localhost:1": ', 'Unable connect to "HOST:PORT": '),
    ],
)
def test_what_differs_from_login_to_login_is_replaced(said: str, shown: str) -> None:
    assert stable(said) == shown


def test_both_messages_of_librdkafka_are_one() -> None:
    rest = "Disconnected: SSL connection closed by peer"
    brief = stable(f"_TRANSPORT: ssl://localhost:1/bootstrap: {rest} (after 1ms in state X)")
    whole = f"SSL handshake failed: {rest}: connecting to a PLAINTEXT broker listener?"
    assert brief == f"_TRANSPORT: ssl://HOST:PORT/bootstrap: {whole} (after N ms in state X)"
    assert stable(brief) == brief


def test_the_document_shows_what_is_expected() -> None:
    found = document.DOCUMENT.read_text(encoding="utf-8")
    assert found == document.text(), "run: python -m compat.logins.document"
