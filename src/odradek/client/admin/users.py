"""Users with credentials of SCRAM (KIP-554)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from odradek.client.cluster import Cluster
from odradek.client.errors import BrokerError, ClientError, broker_error, check
from odradek.core.sasl.scram_keys import BY_NAME, BY_NUMBER, salted_password
from odradek.model.errors import ErrorCode
from odradek.wire.generated.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from odradek.wire.generated.alter_user_scram_credentials_response import (
    AlterUserScramCredentialsResponse,
)
from odradek.wire.generated.describe_user_scram_credentials_request import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from odradek.wire.generated.describe_user_scram_credentials_response import (
    DescribeUserScramCredentialsResponse,
)


@dataclass(frozen=True, slots=True)
class NewCredential:
    """A credential to set. The password is not sent: the salted password is."""

    mechanism: str
    password: str
    salt: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"NewCredential({self.mechanism})"


def describe_users(
    cluster: Cluster, names: Iterable[str] | None = None
) -> dict[str, Mapping[str, int] | ClientError]:
    """Return the iterations of each user's credentials by mechanism; by default of all users.

    Raises:
        ClientError: the broker does not respond, or rejects the request.
    """
    users = None if names is None else [UserName(name=each) for each in names]
    response = cluster.ask_any(
        DescribeUserScramCredentialsRequest(users=users),
        DescribeUserScramCredentialsResponse,
        lambda r: check(r.error_code, r.error_message, "users"),
    )
    found: dict[str, Mapping[str, int] | ClientError] = {}
    for each in response.results:
        if each.error_code == ErrorCode.RESOURCE_NOT_FOUND:
            found[each.user] = _unknown(each.user)
            continue
        error = broker_error(each.error_code, each.error_message, f"user {each.user}")
        found[each.user] = error or {
            BY_NUMBER[info.mechanism].name: info.iterations
            for info in each.credential_infos
            if info.mechanism in BY_NUMBER
        }
    return dict(sorted(found.items()))


def set_credential(cluster: Cluster, user: str, new: NewCredential) -> None:
    """Create or replace the credential of a user for one mechanism.

    Raises:
        ClientError: the controller does not respond, or rejects the credential.
    """
    mechanism = BY_NAME[new.mechanism]
    upsertion = ScramCredentialUpsertion(
        name=user,
        mechanism=mechanism.number,
        iterations=new.iterations,
        salt=new.salt,
        salted_password=salted_password(mechanism, new.password, new.salt, new.iterations),
    )
    _alter(cluster, AlterUserScramCredentialsRequest(upsertions=[upsertion]))


def remove_credential(cluster: Cluster, user: str, mechanism: str) -> None:
    """Remove the credential of a user for one mechanism.

    Raises:
        ClientError: the controller does not respond, or there is no such credential.
    """
    deletion = ScramCredentialDeletion(name=user, mechanism=BY_NAME[mechanism].number)
    _alter(cluster, AlterUserScramCredentialsRequest(deletions=[deletion]))


def _alter(cluster: Cluster, request: AlterUserScramCredentialsRequest) -> None:
    def check_all(response: AlterUserScramCredentialsResponse) -> None:
        for each in response.results:
            if each.error_code == ErrorCode.RESOURCE_NOT_FOUND:
                raise _unknown(each.user)
            check(each.error_code, each.error_message, f"user {each.user}")

    cluster.ask_controller(request, AlterUserScramCredentialsResponse, check_all)


def _unknown(user: str) -> ClientError:
    return BrokerError(
        ErrorCode.RESOURCE_NOT_FOUND,
        "There is no such credential.",
        f"user {user}",
        "See which users there are: odradek user list",
    )
