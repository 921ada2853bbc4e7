"""The tokens of a node's own connections: one for each login, kept until it is due."""

import asyncio

import pytest

from odradek.broker.peers.tokens import NoToken, PeerTokens
from odradek.config.oauth_login import LoginSettings, TokenEndpoint
from odradek.env.executor import InlineExecutor

from . import issuer


class Clock:
    """A clock that the test sets."""

    def __init__(self):
        self.s = 1_800_000_000

    def now_ms(self):
        return self.s * 1000


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def tokens(clock):
    return PeerTokens(InlineExecutor(), clock, bytes)


@pytest.fixture
def login(tmp_path, clock):
    """Write the token of a user, and return the login that reads it from the file."""

    def login(user, lifetime_s=1000):
        file = tmp_path / user
        claims = {"sub": user, "exp": clock.s + lifetime_s}
        file.write_text(issuer.unsecured(claims))
        return LoginSettings(TokenEndpoint(file.as_uri()))

    return login


def test_each_login_keeps_its_token(tokens, login):
    logins = [login("broker"), login("controller")]

    async def both():
        return [await tokens.credential(each) for each in logins]

    first = asyncio.run(both())
    assert [each.user for each in first] == ["broker", "controller"]
    for each in logins:
        login(each.source.url.rpartition("/")[2], 2000)  # nobody reads these tokens yet
    assert asyncio.run(both()) == first


def test_a_token_is_used_until_it_expires_if_there_is_no_other(tokens, login, clock, tmp_path):
    settings = login("broker")
    first = asyncio.run(tokens.credential(settings))
    (tmp_path / "broker").unlink()
    clock.s += 999
    assert asyncio.run(tokens.credential(settings)) == first
    clock.s += 1
    with pytest.raises(NoToken, match="No such file"):
        asyncio.run(tokens.credential(settings))


def test_expired_tokens_of_former_settings_are_removed(tokens, login, clock):
    asyncio.run(tokens.credential(login("former")))
    clock.s += 1000
    asyncio.run(tokens.credential(login("present")))
    assert [each.credential.user for each in tokens._held.values()] == ["present"]
