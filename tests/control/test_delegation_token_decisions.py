"""What the controller decides about delegation tokens, and when tokens expire."""

import hashlib
import hmac as hashes
import random

import pytest

from odradek.core.controller import delegation_tokens, periodic
from odradek.core.controller.delegation_tokens import TIMESTAMP_MAX
from odradek.core.metadata.image import EMPTY_IMAGE
from odradek.core.metadata.snapshot import delta_between
from odradek.model.errors import ErrorCode
from odradek.wire.generated.create_delegation_token_request import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
)
from odradek.wire.generated.expire_delegation_token_request import ExpireDelegationTokenRequest
from odradek.wire.generated.remove_delegation_token_record import RemoveDelegationTokenRecord
from odradek.wire.generated.renew_delegation_token_request import RenewDelegationTokenRequest

from .harness import EPOCH_MS, TOKEN_CHECK_MS, Controller

DAY_MS = 86_400_000
ALICE, BOB, CAROL = "User:alice", "User:bob", "User:carol"
NONE = ErrorCode.NONE


class Tokens:
    """A controller, and requests about tokens."""

    def __init__(self, **settings):
        settings = {"delegation_token_secret_key": "secret", **settings}
        self.controller = Controller(**settings)

    def ask(self, requester, request, version=None):
        self.controller.requester = requester
        return self.controller.ask(request, version).response

    def create(self, requester=ALICE, *renewers, version=None, **fields):
        named = [
            CreatableRenewers(principal_type=kind, principal_name=name)
            for kind, name in (each.split(":") for each in renewers)
        ]
        request = CreateDelegationTokenRequest(
            renewers=named, **{"max_lifetime_ms": -1, "owner_principal_name": None, **fields}
        )
        return self.ask(requester, request, version)

    def renew(self, requester, hmac, period_ms=-1):
        answer = self.ask(
            requester, RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms)
        )
        return answer.error_code, answer.expiry_timestamp_ms

    def expire(self, requester, hmac, period_ms=-1):
        request = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms)
        answer = self.ask(requester, request)
        return answer.error_code, answer.expiry_timestamp_ms

    @property
    def wall_ms(self):
        return EPOCH_MS + self.controller.now_ms

    @property
    def stored(self):
        return self.controller.image.delegation_tokens


# -- creation -------------------------------------------------------------------------------------


def test_a_token_belongs_to_its_requester():
    tokens = Tokens()
    answer = tokens.create(ALICE, BOB, CAROL)
    now_ms = tokens.wall_ms
    assert answer.error_code == NONE
    assert (answer.principal_type, answer.principal_name) == ("User", "alice")
    assert answer.token_requester_principal_name == "alice"
    assert answer.hmac == hashes.new(b"secret", answer.token_id.encode(), hashlib.sha512).digest()
    assert len(answer.token_id) == 22
    (token,) = tokens.stored.values()
    assert (token.owner, token.requester, token.renewers) == (ALICE, ALICE, (BOB, CAROL))
    times = answer.issue_timestamp_ms, answer.max_timestamp_ms, answer.expiry_timestamp_ms
    assert times == (now_ms, now_ms + 7 * DAY_MS, now_ms + DAY_MS)
    assert (token.issue_timestamp, token.max_timestamp, token.expiration_timestamp) == times
    answer.encode(3)


def test_a_token_may_be_created_for_another_owner():
    tokens = Tokens()
    answer = tokens.create(ALICE, owner_principal_type="User", owner_principal_name="bob")
    assert (answer.principal_name, answer.token_requester_principal_name) == ("bob", "alice")
    (token,) = tokens.stored.values()
    assert (token.owner, token.requester) == (BOB, ALICE)
    empty = tokens.create(ALICE, owner_principal_type="User", owner_principal_name="")
    assert empty.principal_name == "alice"


@pytest.mark.parametrize("version", [1, 2, 3])
def test_the_response_fits_the_version(version):
    answer = Tokens().create(ALICE, version=version)
    read = type(answer).decode(answer.encode(version), version)
    assert (read.hmac, read.principal_name) == (answer.hmac, "alice")


def test_the_lifetime_may_only_be_shortened():
    tokens = Tokens()
    now_ms = tokens.wall_ms
    for wanted_ms, lifetime_ms in ((0, 7 * DAY_MS), (8 * DAY_MS, 7 * DAY_MS), (1000, 1000)):
        answer = tokens.create(max_lifetime_ms=wanted_ms)
        assert answer.max_timestamp_ms == now_ms + lifetime_ms
        assert answer.expiry_timestamp_ms == now_ms + min(lifetime_ms, DAY_MS)


def test_timestamps_do_not_overflow():
    huge = str(2**63 - 1)
    tokens = Tokens(delegation_token_max_lifetime_ms=huge, delegation_token_expiry_time_ms=huge)
    answer = tokens.create()
    assert answer.max_timestamp_ms == answer.expiry_timestamp_ms == TIMESTAMP_MAX
    assert tokens.renew(ALICE, answer.hmac) == (NONE, TIMESTAMP_MAX)


def test_renewers_are_users():
    tokens = Tokens()
    answer = tokens.create(ALICE, BOB, "Group:admins")
    assert answer.error_code == ErrorCode.INVALID_PRINCIPAL_TYPE
    assert (answer.principal_name, answer.token_id, answer.hmac) == ("alice", "", b"")
    assert not tokens.stored


def test_a_named_owner_has_a_type():
    tokens = Tokens()
    answer = tokens.create(ALICE, owner_principal_type=None, owner_principal_name="bob")
    assert answer.error_code == ErrorCode.INVALID_PRINCIPAL_TYPE
    assert not tokens.stored


def refusals(tokens):
    return (
        tokens.create(ALICE, "Group:g").error_code,
        tokens.renew(ALICE, b"any")[0],
        tokens.expire(ALICE, b"any")[0],
    )


def test_without_a_secret_key_there_are_no_tokens():
    tokens = Tokens(delegation_token_secret_key="", level=13)
    assert refusals(tokens) == (ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED,) * 3


def test_an_old_metadata_version_has_no_tokens():
    assert refusals(Tokens(level=13)) == (ErrorCode.UNSUPPORTED_VERSION,) * 3
    assert Tokens(level=14).create().error_code == NONE


# -- renewal and expiry ---------------------------------------------------------------------------


def test_owner_and_renewers_may_renew_a_token():
    tokens = Tokens()
    hmac = tokens.create(CAROL, BOB, owner_principal_type="User", owner_principal_name="alice").hmac
    tokens.controller.now_ms += DAY_MS // 2
    now_ms = tokens.wall_ms
    assert tokens.renew(ALICE, hmac) == (NONE, now_ms + DAY_MS)
    assert tokens.renew(BOB, hmac, 1000) == (NONE, now_ms + 1000)
    assert tokens.renew(BOB, hmac, 2 * DAY_MS) == (NONE, now_ms + DAY_MS)
    # The requester is neither the owner nor a renewer.
    assert tokens.renew(CAROL, hmac) == (ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, 0)
    assert tokens.expire(CAROL, hmac) == (ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, 0)
    (token,) = tokens.stored.values()
    assert (token.owner, token.renewers) == (ALICE, (BOB,))


def test_a_token_is_not_renewed_beyond_its_lifetime():
    tokens = Tokens()
    answer = tokens.create(max_lifetime_ms=DAY_MS + 5)
    tokens.controller.now_ms += DAY_MS
    assert tokens.renew(ALICE, answer.hmac) == (NONE, answer.max_timestamp_ms)
    assert tokens.expire(ALICE, answer.hmac, DAY_MS) == (NONE, answer.max_timestamp_ms)


def test_an_unknown_token_is_not_found():
    tokens = Tokens()
    hmac = tokens.create().hmac
    for wrong in (b"", hmac[:-1], hmac + b"\0"):
        assert tokens.renew(ALICE, wrong) == (ErrorCode.DELEGATION_TOKEN_NOT_FOUND, 0)
        assert tokens.expire(ALICE, wrong) == (ErrorCode.DELEGATION_TOKEN_NOT_FOUND, 0)


def test_an_expired_token_can_only_be_removed():
    tokens = Tokens()
    hmac = tokens.create(ALICE, max_lifetime_ms=1000).hmac
    tokens.controller.now_ms += 1000
    assert tokens.expire(ALICE, hmac, 0)[0] == NONE, "it expires after this millisecond"
    tokens.controller.now_ms += 1
    expired = ErrorCode.DELEGATION_TOKEN_EXPIRED, 0
    assert (tokens.renew(BOB, hmac), tokens.expire(ALICE, hmac, 5)) == (expired, expired)
    assert tokens.expire(BOB, hmac)[0] == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    assert tokens.expire(ALICE, hmac) == (NONE, tokens.wall_ms)
    assert not tokens.stored
    assert tokens.expire(ALICE, hmac)[0] == ErrorCode.DELEGATION_TOKEN_NOT_FOUND


def test_a_token_may_expire_earlier():
    tokens = Tokens()
    hmac = tokens.create().hmac
    assert tokens.expire(ALICE, hmac, 0) == (NONE, tokens.wall_ms)
    tokens.controller.now_ms += 1
    assert tokens.renew(ALICE, hmac)[0] == ErrorCode.DELEGATION_TOKEN_EXPIRED


def test_another_controller_knows_the_tokens():
    tokens = Tokens()
    kept, removed = (tokens.create().hmac for _ in range(2))
    tokens.expire(ALICE, removed)
    tokens.controller.fail_over()
    assert tokens.renew(ALICE, kept)[0] == NONE
    assert tokens.renew(ALICE, removed)[0] == ErrorCode.DELEGATION_TOKEN_NOT_FOUND


# -- the sweep ------------------------------------------------------------------------------------


def test_expired_tokens_are_removed():
    tokens = Tokens()
    controller = tokens.controller
    assert controller.machine.deadline_ms(controller.moment) is None, "there is nothing to remove"
    tokens.create(max_lifetime_ms=TOKEN_CHECK_MS - 1)
    tokens.create(max_lifetime_ms=TOKEN_CHECK_MS)
    kept = tokens.create()
    assert controller.pass_time(TOKEN_CHECK_MS - 1) == []
    (record,) = controller.pass_time(1)
    assert isinstance(record, RemoveDelegationTokenRecord)
    (record,) = controller.pass_time(TOKEN_CHECK_MS)
    assert list(tokens.stored) == [kept.token_id]
    controller.fail_over()
    assert len(controller.pass_time(DAY_MS)) == 1
    assert not tokens.stored
    assert controller.machine.deadline_ms(controller.moment) is None


def test_a_sweep_removes_a_limited_number_of_tokens(monkeypatch):
    monkeypatch.setattr(delegation_tokens, "REMOVALS_MAX", 3)
    monkeypatch.setattr(periodic, "REMOVALS_MAX", 3)
    tokens = Tokens()
    controller = tokens.controller
    for _ in range(7):
        tokens.create(max_lifetime_ms=1)
    controller.pass_time(TOKEN_CHECK_MS)
    assert len(tokens.stored) == 4
    controller.pass_time(periodic.SOON_MS)
    assert len(tokens.stored) == 1
    controller.pass_time(periodic.SOON_MS)
    assert not tokens.stored


@pytest.mark.parametrize("seed", range(3))
def test_histories(seed):
    """The index of the HMACs follows the metadata, and a snapshot has all tokens."""
    draw = random.Random(seed)
    tokens = Tokens(elr=False)
    known = {}
    for _ in range(60):
        hmac = draw.choice(list(known) or [b""])
        who = draw.choice((ALICE, BOB))
        match draw.randrange(6):
            case 0 | 1:
                answer = tokens.create(who, max_lifetime_ms=draw.choice((-1, 1, DAY_MS)))
                known[answer.hmac] = answer.token_id
            case 2:
                tokens.renew(who, hmac, draw.choice((-1, 5)))
            case 3:
                tokens.expire(who, hmac, draw.choice((-1, 0, 5)))
            case 4:
                tokens.controller.pass_time(draw.choice((1, TOKEN_CHECK_MS)))
            case _:
                tokens.controller.fail_over()
        ids = tokens.controller.state.token_ids
        for mac, token_id in known.items():
            found = ids.of(mac)
            assert found == (token_id if token_id in tokens.stored else None), f"seed {seed}"
    image = tokens.controller.image
    after = delta_between(EMPTY_IMAGE, image).apply(image.offset, image.epoch)
    assert after.delegation_tokens == tokens.stored, f"seed {seed}"
