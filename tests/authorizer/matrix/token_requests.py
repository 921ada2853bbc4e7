"""Requests of the matrix about delegation tokens.

The tokens `foreign`, `renewable` and so on belong to another user. The user without rights may renew
all of them except the first one.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from tests.authorizer.matrix.request import Known, Request
from tests.authorizer.matrix.rights import DESCRIBE, Right

from odradek.model.acl import AclOperation, AclResourceType

OWNER = "owner"
FOREIGN = "foreign"
RENEWABLE = ("renewable", "shorter", "removed", "removed by a controller")
_OWN: dict[str, Any] = {"owner_principal_type": None, "owner_principal_name": None}
_OF_ANOTHER = {"owner_principal_type": "User", "owner_principal_name": "another"}
_USER = {"principal_type": "User", "principal_name": "renewer"}
_GROUP = {"principal_type": "Group", "principal_name": "renewer"}
_LIFETIME = {"max_lifetime_ms": 1_000_000}
_UNKNOWN = bytes(64)


def _hmac(name: str) -> Known:
    return Known(f"hmac {name}")


def _describe() -> list[Request]:
    api, tokens = "DescribeDelegationToken", AclResourceType.DELEGATION_TOKEN
    any_token = [Right(DESCRIBE, tokens, "*")]
    of_owner = [Right(AclOperation.DESCRIBE_TOKENS, AclResourceType.USER, f"User:{OWNER}")]
    owners = [{"principal_type": "User", "principal_name": each} for each in (OWNER, "none")]
    return [
        Request("all", api, 3, {"owners": None}, any_token),
        Request("all", api, 1, {"owners": None}, of_owner),
        Request("of an owner", api, 3, {"owners": owners}, any_token),
        Request("of an owner", api, 2, {"owners": owners}, [*any_token, *of_owner]),
        Request("of nobody", api, 3, {"owners": owners[1:]}, any_token),
        Request("of no owner", api, 3, {"owners": []}, any_token),
    ]


def _create() -> list[Request]:
    api = "CreateDelegationToken"
    needs = [Right(AclOperation.CREATE_TOKENS, AclResourceType.USER, "User:another")]
    named = {"renewers": [_USER], **_LIFETIME}
    return [
        Request("", api, 3, {**_OWN, **named}),
        Request("", api, 1, named),
        Request("of an unnamed owner", api, 3, {**_OF_ANOTHER, "owner_principal_name": "", **named}),
        Request("of another owner", api, 3, {**_OF_ANOTHER, **named}, needs),
        Request("with a wrong renewer", api, 2, {"renewers": [_USER, _GROUP], **_LIFETIME}),
        Request(
            "of another owner, with a wrong renewer", api, 3,
            {**_OF_ANOTHER, "renewers": [_GROUP], **_LIFETIME}, needs,
        ),
    ]  # fmt: skip


def _renew_and_expire() -> list[Request]:
    renew, expire = "RenewDelegationToken", "ExpireDelegationToken"
    hour_ms = 3_600_000
    return [
        Request("of another owner", renew, 2, {"hmac": _hmac(FOREIGN), "renew_period_ms": -1}),
        Request("unknown", renew, 1, {"hmac": _UNKNOWN, "renew_period_ms": -1}),
        Request("", renew, 1, {"hmac": _hmac("renewable"), "renew_period_ms": hour_ms}),
        Request("of another owner", expire, 2, {
            "hmac": _hmac(FOREIGN), "expiry_time_period_ms": -1}),
        Request("unknown", expire, 1, {"hmac": b"", "expiry_time_period_ms": -1}),
        Request("later", expire, 2, {"hmac": _hmac("shorter"), "expiry_time_period_ms": hour_ms}),
    ]  # fmt: skip


def _removal(name: str) -> Request:
    fields = {"hmac": _hmac(name), "expiry_time_period_ms": -1}
    return Request("now", "ExpireDelegationToken", 2, fields)


def _token_requests() -> list[Request]:
    ours = [*_describe(), *_create(), *_renew_and_expire()]
    of_both = [*ours, *(dataclasses.replace(each, is_on_controller=True) for each in ours)]
    by_controller = dataclasses.replace(_removal("removed by a controller"), is_on_controller=True)
    # A broker of Apache Kafka may not know yet what a request before has changed.
    return [
        *sorted(of_both, key=lambda each: not each.api.startswith("Describe")),
        _removal("removed"),
        by_controller,
    ]


TOKEN_REQUESTS = _token_requests()
