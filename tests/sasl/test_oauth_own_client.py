"""Our own client logs in with access tokens: from a file, from an OAuth server, and unsecured ones."""

import base64
import json
import pickle
from urllib.parse import parse_qs

import pytest
from tests.cli.conftest import invoke

from odradek.client import connection as connection_module
from odradek.client.address import Address
from odradek.client.connection import Connection
from odradek.client.errors import SecurityError
from odradek.client.oauth import credential_of
from odradek.client.security import parse_security
from odradek.config.oauth_login import LoginSettings, Refresh, TokenEndpoint
from odradek.core.sasl.login import LoginFailed, held_token, token_in
from odradek.wire.generated.metadata_request import MetadataRequest
from odradek.wire.generated.metadata_response import MetadataResponse

from . import issuer
from .test_oauth_listener import (  # noqa: F401  fixtures
    FIRST,
    INVALID,
    MODULE,
    SECOND,
    broker,
    endpoint,
    file,
    token,
)

CLIENT = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}
TOKEN_URL = "sasl.oauthbearer.token.endpoint.url"
ID = "sasl.oauthbearer.client.credentials.client.id"
SECRET = "sasl.oauthbearer.client.credentials.client.secret"


class Server:
    """The OAuth server at /token: a client "app" with the secret "hush" gets tokens."""

    def __init__(self, endpoint):  # noqa: F811
        self.url = f"{endpoint.url}/token"
        self.asked = []
        self.expires_s = 600
        endpoint.documents["/token"] = self.answer

    def answer(self, headers, body):
        self.asked.append(parse_qs(body.decode()))
        expected = base64.b64encode(b"app:hush").decode()
        if headers["Authorization"] != f"Basic {expected}":
            return 401, json.dumps({"error": "invalid_client", "error_description": "who?"})
        made = token(expires_s=self.expires_s, jti=str(len(self.asked)))
        return 200, json.dumps({"access_token": made, "token_type": "Bearer"})


@pytest.fixture
def server(endpoint):  # noqa: F811
    return Server(endpoint)


def connect(port, **settings):
    security = parse_security({**CLIENT, **settings})
    return Connection(Address("127.0.0.1", port), "test", 10_000, security)


def check(connection):
    assert connection.request(MetadataRequest(topics=[]), MetadataResponse, 10_000).brokers
    connection.close()


def test_a_token_in_a_file(ports, tmp_path):
    path = tmp_path / "a token"
    path.write_text(f"{token()}\n")
    url = f"file://{str(path).replace(' ', '%20')}"
    check(connect(ports["FILE"], **{TOKEN_URL: url}))
    path.write_text(token(expires_s=-60))
    with pytest.raises(SecurityError, match=r"does not let alice in: .*invalid_token"):
        connect(ports["FILE"], **{TOKEN_URL: url})
    path.write_text(token(SECOND))
    with pytest.raises(SecurityError, match="does not let alice in"):
        connect(ports["FILE"], **{TOKEN_URL: url})
    for text, problem in (("x", "three parts"), (token(sub=None), "no claim sub"), ("", "three")):
        path.write_text(text)
        with pytest.raises(SecurityError, match=f"there is no access token: .*{problem}"):
            connect(ports["FILE"], **{TOKEN_URL: url})
    path.unlink()
    with pytest.raises(SecurityError, match="cannot read"):
        connect(ports["FILE"], **{TOKEN_URL: url})


def test_a_token_of_a_server(ports, server):
    settings = {TOKEN_URL: server.url, ID: "app", SECRET: "hush", "sasl.oauthbearer.scope": "a b"}
    check(connect(ports["FILE"], **settings))
    check(connect(ports["WEB"], **settings))  # with the same token
    assert server.asked == [{"grant_type": ["client_credentials"], "scope": ["a b"]}]


@pytest.mark.parametrize(
    "settings",
    [
        {"sasl.oauthbearer.client.id": "app", "sasl.oauthbearer.client.secret": "hush"}
        | {"sasl.oauthbearer.method": "oidc", "sasl.oauthbearer.extensions": "a=b,traceId=5"},
        {"sasl.jaas.config": f'{MODULE} required clientId=app clientSecret="hush" extension_a=b;'},
    ],
)
def test_other_names_of_the_settings(ports, server, settings):
    check(connect(ports["FILE"], **{TOKEN_URL: server.url, **settings}))
    assert server.asked == [{"grant_type": ["client_credentials"]}]


def test_a_wrong_secret(ports, server):
    with pytest.raises(SecurityError) as problem:
        connect(ports["FILE"], **{TOKEN_URL: server.url, ID: "app", SECRET: "swordfish"})
    assert "the status 401: 'invalid_client - who?'" in str(problem.value)
    assert "swordfish" not in str(problem.value)
    assert len(server.asked) == 1


def test_a_server_that_does_not_answer(ports, server, endpoint):  # noqa: F811
    quick = {"sasl.login.retry.backoff.ms": "1", "sasl.login.retry.backoff.max.ms": "5"}
    settings = {ID: "app", SECRET: "hush", **quick}
    with pytest.raises(SecurityError, match="cannot be fetched: Connection refused"):
        connect(ports["FILE"], **{TOKEN_URL: "http://127.0.0.1:1/token", **settings})
    answers = [(503, "later"), (500, "{"), (200, json.dumps({"id_token": token()}))]
    endpoint.documents["/token"] = lambda headers, body: answers.pop(0)
    slow = {**settings, "sasl.login.retry.backoff.max.ms": "60000"}
    check(connect(ports["FILE"], **{TOKEN_URL: server.url, **slow}))
    endpoint.documents["/token"] = "[]"
    with pytest.raises(SecurityError, match="has no token"):
        connect(ports["FILE"], **{TOKEN_URL: server.url, **settings, ID: "other"})


def test_a_token_is_replaced_before_its_end(ports, server, monkeypatch):
    """The token is old enough when the connection authenticates again."""
    refresh = {"sasl.login.refresh.window.factor": "0", "sasl.login.refresh.window.jitter": "0"}
    refresh |= {f"sasl.login.refresh.{each}.seconds": "0" for each in ("min.period", "buffer")}
    settings = {TOKEN_URL: server.url, ID: "app", SECRET: "hush", **refresh}
    monkeypatch.setattr(connection_module, "SESSION_USED", 0)
    connection = connect(ports["WEB"], **settings)
    assert len(server.asked) == 1
    monkeypatch.setattr(connection_module, "SESSION_USED", 0.5)
    for _ in range(2):
        assert connection.request(MetadataRequest(topics=[]), MetadataResponse, 10_000).brokers
    assert len(server.asked) == 2
    connection.close()


def test_an_old_token_is_used_while_the_server_is_away(server, endpoint):  # noqa: F811
    settings = parse_security(
        {**CLIENT, TOKEN_URL: server.url, ID: "app", SECRET: "hush"}
        | {"sasl.login.retry.backoff.ms": "1", "sasl.login.retry.backoff.max.ms": "1"}
        | {"sasl.login.refresh.window.factor": "0", "sasl.login.refresh.window.jitter": "0"}
        | {f"sasl.login.refresh.{each}.seconds": "0" for each in ("min.period", "buffer")}
    )
    first = credential_of(settings.login)
    endpoint.documents["/token"] = (500, "")
    assert credential_of(settings.login) == first


def test_tokens_without_signatures(ports):
    jaas = (
        f'{MODULE} required unsecuredLoginStringClaim_sub="alice" '
        'unsecuredLoginListClaim_scope=",a,b" unsecuredLoginNumberClaim_n=5 '
        'unsecuredLoginExtension_traceId="1" unsecuredLoginLifetimeSeconds=60;'
    )
    check(connect(ports["OPEN"], **{"sasl.jaas.config": jaas}))
    with pytest.raises(SecurityError, match=r"does not let alice in: .*invalid_token"):
        connect(ports["FILE"], **{"sasl.jaas.config": jaas})
    scopeless = f'{MODULE} required unsecuredLoginStringClaim_sub="alice";'
    with pytest.raises(SecurityError, match="insufficient_scope"):
        connect(ports["OPEN"], **{"sasl.jaas.config": scopeless})


def test_the_commands(ports, tmp_path):
    (tmp_path / "token").write_text(token())
    words = [f"{name}={value}" for name, value in CLIENT.items()]
    words += [f"{TOKEN_URL}=file://{tmp_path}/token"]
    options = [word for each in words for word in ("-X", each)]
    port = f"127.0.0.1:{ports['FILE']}"
    listed = invoke("topic", "list", "-b", port, *options, bootstrap="")
    assert (listed.code, listed.lines[-1].split()[0]) == (0, "orders"), listed.err
    (tmp_path / "token").write_text(token(expires_s=-60))
    refused = invoke("topic", "list", "-b", port, *options, bootstrap="")
    assert refused.code == 1
    assert INVALID in refused.err


# -- without a broker ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({}, "OAUTHBEARER needs a token: set sasl.oauthbearer.token.endpoint.url"),
        ({TOKEN_URL: "https://x/token"}, f"needs {ID}"),
        ({TOKEN_URL: "https://x/token", ID: "a"}, f"needs {SECRET}"),
        ({TOKEN_URL: "ftp://x/token"}, "must be a URL"),
        ({TOKEN_URL: "file:///x", "sasl.login.callback.handler.class": "my.Handler"}, "in Java"),
        ({TOKEN_URL: "file:///x", "sasl.oauthbearer.jwt.retriever.class": "my.Own"}, "in Java"),
        ({TOKEN_URL: "file:///x", "sasl.oauthbearer.assertion.file": "x"}, "not an assertion"),
        ({TOKEN_URL: "file:///x", "sasl.oauthbearer.method": "other"}, "oidc or default"),
        ({TOKEN_URL: "file:///x", "sasl.jaas.config": "my.Module required;"}, "login module"),
        (
            {"sasl.jaas.config": f"{MODULE} required unsecuredLoginStringClaim_exp=1;"},
            "exp and iat",
        ),
        ({"sasl.jaas.config": f"{MODULE} required unsecuredLoginNumberClaim_a=x;"}, "convert"),
    ],
)
def test_settings_that_cannot_be_used(settings, problem):
    with pytest.raises(ValueError, match=problem):
        parse_security({**CLIENT, **settings})


def test_the_settings_can_be_sent_to_executors_and_hide_the_secret():
    security = parse_security({**CLIENT, TOKEN_URL: "https://x/t", ID: "a", SECRET: "swordfish"})
    assert pickle.loads(pickle.dumps(security)) == security
    assert "swordfish" not in repr(security)
    assert security.login.source == TokenEndpoint("https://x/t", "a", security.login.source[2])


def test_when_a_token_is_replaced():
    def replaced(expires_s, chance=0.0, **changes):
        settings = LoginSettings(TokenEndpoint("x"), refresh=Refresh()._replace(**changes))
        text = issuer.unsecured({"sub": "a", "exp": expires_s})
        return held_token(settings, text, 0, chance).replace_ms

    assert replaced(10_000) == 8_000_000
    assert replaced(10_000, chance=1.0) == 8_500_000
    assert replaced(1000) == 700_000  # the buffer
    assert replaced(1000, window_factor=0.01) == 60_000  # the minimum period
    assert replaced(300) == 240_000  # neither of them fits
    assert replaced(-5) == 0


def test_responses_without_a_token():
    for text in (b"", b"{", b"5", b"{}", b'{"access_token":5}', b'{"access_token":" "}'):
        with pytest.raises(LoginFailed, match="has no token"):
            token_in(200, text)
    with pytest.raises(LoginFailed, match=r"status 302$"):
        token_in(302, b"x")
    assert token_in(200, b'{"id_token":"b","access_token":"a"}') == "a"


def test_the_key_of_the_fixture_is_the_first_one():
    assert FIRST.jwk["kid"] == "first"
