"""Clients create delegation tokens, log in with them, renew and expire them."""

import pytest
from tests.cli.conftest import invoke

from odradek.config.checks import Secret
from odradek.core.sasl.delegation_tokens import token_hmac, token_password
from odradek.model.errors import ErrorCode
from odradek.wire.api import BY_KEY
from odradek.wire.generated.create_delegation_token_request import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
)
from odradek.wire.generated.describe_configs_request import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from odradek.wire.generated.describe_configs_response import DescribeConfigsResponse
from odradek.wire.generated.describe_delegation_token_request import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from odradek.wire.generated.expire_delegation_token_request import ExpireDelegationTokenRequest
from odradek.wire.generated.renew_delegation_token_request import RenewDelegationTokenRequest

from .client import ScramClient, plain
from .test_listener import Client, principal

DAY_MS = 86_400_000
NOT_ALLOWED = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


class TokenClient(Client):
    """A client that asks for tokens."""

    def ask(self, version, request):
        api = BY_KEY[request.API_KEY]
        return self.call(api.name, version, request, api.response_class())

    def create(self, *renewers, version=3, lifetime_ms=-1):
        named = [CreatableRenewers(principal_type="User", principal_name=each) for each in renewers]
        request = CreateDelegationTokenRequest(
            owner_principal_name=None, renewers=named, max_lifetime_ms=lifetime_ms
        )
        return self.ask(version, request)

    def renew(self, hmac, period_ms=-1, version=2):
        return self.ask(version, RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms))

    def expire(self, hmac, period_ms=-1, version=2):
        request = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms)
        return self.ask(version, request)

    def tokens(self, *owners, version=3):
        named = [
            DescribeDelegationTokenOwner(principal_type="User", principal_name=n) for n in owners
        ]
        return self.ask(version, DescribeDelegationTokenRequest(owners=named or None))

    def log_in(self, user):
        assert self.handshake().error_code == 0
        assert self.authenticate(plain(user, f"{user}-secret")).error_code == 0
        return self

    def log_in_with(self, token_id, hmac, mechanism="SCRAM-SHA-256"):
        """Log in with a token; return the last response."""
        assert self.handshake(mechanism).error_code == 0
        hash_name = mechanism.removeprefix("SCRAM-").replace("-", "").lower()
        client = ScramClient(
            hash_name, token_id, token_password(hmac), extensions=",tokenauth=true"
        )
        answer = self.authenticate(client.first())
        if answer.error_code == 0:
            answer = self.authenticate(client.final(answer.auth_bytes))
        if answer.error_code == 0:
            client.verify(answer.auth_bytes)
        return answer


@pytest.fixture
def alice(ports):
    with TokenClient(ports["CLIENT"]) as client:
        yield client.log_in("alice")


@pytest.fixture
def bob(ports):
    with TokenClient(ports["CLIENT"]) as client:
        yield client.log_in("bob")


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_client_logs_in_with_a_token(broker, ports, alice, mechanism):
    created = alice.create("bob")
    assert created.hmac == token_hmac(Secret("token-secret"), created.token_id)
    for _ in range(2):  # the second one finds the credential
        with TokenClient(ports["CLIENT"]) as other:
            answer = other.log_in_with(created.token_id, created.hmac, mechanism)
            assert answer.error_code == 0
            assert 0 < answer.session_lifetime_ms <= DAY_MS
            assert principal(broker, other) == "User:alice"
            assert other.describe().brokers
            # Such a client gets no further token.
            refused = other.create()
            assert (refused.error_code, refused.expiry_timestamp_ms) == (NOT_ALLOWED, -1)
            assert (refused.principal_name, refused.token_id) == ("alice", "")
            assert other.renew(created.hmac).error_code == NOT_ALLOWED
            assert other.expire(created.hmac).error_code == NOT_ALLOWED
            assert other.tokens().error_code == NOT_ALLOWED


def test_wrong_tokens(ports, alice):
    created = alice.create()
    for token_id, hmac in (
        (created.token_id, b"wrong"),
        ("unknown", created.hmac),
        ("alice", b"alice-secret"),
    ):
        with TokenClient(ports["CLIENT"]) as other:
            answer = other.log_in_with(token_id, hmac)
            assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            assert "invalid credentials" in answer.error_message


def test_tokens_are_renewed_and_removed(ports, alice, bob):
    created = alice.create("bob", lifetime_ms=2 * DAY_MS)
    renewed = bob.renew(created.hmac, version=1)
    assert (renewed.error_code, renewed.expiry_timestamp_ms >= created.expiry_timestamp_ms) == (
        0,
        1,
    )
    soon = bob.expire(created.hmac, 60_000, version=1)
    assert 0 < soon.expiry_timestamp_ms - created.issue_timestamp_ms < 2 * DAY_MS
    with TokenClient(ports["CLIENT"]) as other:
        answer = other.log_in_with(created.token_id, created.hmac)
        assert 0 < answer.session_lifetime_ms <= 60_000
        assert alice.expire(created.hmac).error_code == 0
        assert other.describe().brokers, "the session lasts until the token would expire"
    with TokenClient(ports["CLIENT"]) as other:
        assert other.log_in_with(created.token_id, created.hmac).error_code != 0
    assert alice.renew(created.hmac).error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND


def test_tokens_are_described(alice, bob):
    created = alice.create("bob")
    for version in (1, 2, 3):
        (token,) = [
            each for each in bob.tokens(version=version).tokens if each.hmac == created.hmac
        ]
        assert (token.principal_name, token.token_id) == ("alice", created.token_id)
        assert [each.principal_name for each in token.renewers] == ["bob"]
        assert token.token_requester_principal_name == ("alice" if version == 3 else "")
        assert token.max_timestamp - token.issue_timestamp == 7 * DAY_MS
    ids = {each.token_id for each in alice.tokens("bob").tokens}
    assert created.token_id in ids, "a renewer is asked for"
    assert alice.tokens("nobody").tokens == []
    empty = alice.ask(3, DescribeDelegationTokenRequest(owners=[]))
    assert (empty.error_code, empty.tokens) == (0, [])


def test_without_authentication_there_are_no_tokens(ports):
    with TokenClient(ports["PLAINTEXT"]) as client:
        created = client.create()
        assert (created.error_code, created.principal_name) == (NOT_ALLOWED, "ANONYMOUS")
        answers = client.renew(b"x"), client.expire(b"x"), client.tokens()
        assert [each.error_code for each in answers] == [NOT_ALLOWED] * 3


def test_the_secret_key_is_not_shown(alice):
    request = DescribeConfigsRequest(
        resources=[DescribeConfigsResource(resource_type=4, resource_name="1")]
    )
    answer = alice.call("DescribeConfigs", 4, request, DescribeConfigsResponse)
    (shown,) = [
        each for each in answer.results[0].configs if each.name == "delegation.token.secret.key"
    ]
    assert (shown.value, shown.is_sensitive) == (None, True)


def test_the_commands(ports, tmp_path):
    file = tmp_path / "client.properties"
    common = f"bootstrap.servers=127.0.0.1:{ports['CLIENT']}\nsecurity.protocol=SASL_PLAINTEXT\n"
    file.write_text(f"{common}sasl.mechanism=PLAIN\nsasl.username=bob\nsasl.password=bob-secret\n")

    def run(*words, config=file, code=0):
        outcome = invoke("token", *words, "--command-config", config, bootstrap="")
        assert outcome.code == code, outcome.err
        return outcome

    made = run("create", "--renewer", "alice", "--lifetime", "2d", "--json").json
    assert (made["owner"], made["requester"], made["renewers"]) == (
        "User:bob",
        "User:bob",
        ["User:alice"],
    )
    assert made["lives_until_ms"] - made["issued_ms"] == 2 * DAY_MS
    listed = run("list", "--owner", "alice")
    assert made["id"] in listed.out
    assert made["hmac"] not in listed.out
    assert all("hmac" not in each for each in run("list", "--json").json)
    assert made["hmac"] not in run("describe", made["id"]).out
    assert made["hmac"] in run("describe", made["id"], "--show-hmac").out
    assert "expires at" in run("renew", made["id"], "--for", "1h").err
    assert "expires at" in run("expire", made["id"], "--after", "1h").err
    of_token = tmp_path / "token.properties"
    made_for = ("create", "--properties", "--mechanism", "scram-sha-256")
    of_token.write_text(common + run(*made_for).out)
    assert "sasl.mechanism=SCRAM-SHA-256" in of_token.read_text()
    topics = invoke("topic", "list", "--command-config", of_token, bootstrap="")
    assert topics.code == 0, topics.err
    assert "orders" in topics.out
    assert "must be users: User:NAME" in run("create", "--renewer", "Group:x", code=1).err
    refused = run("create", config=of_token, code=1)
    assert "(DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)" in refused.err
    assert "Log in with a password or a certificate" in refused.err
    for words in (("create", "--lifetime", "0s"), ("renew", made["id"], "--for", "0s")):
        assert "longer than nothing" in run(*words, code=2).err
    run("expire", made["id"], "--yes")
    gone = run("describe", made["id"], code=1)
    assert "DELEGATION_TOKEN_NOT_FOUND" in gone.err
    assert "odradek token list" in gone.err
