"""Decides on changes of SCRAM credentials (Kafka's ScramControlManager, KIP-554)."""

from __future__ import annotations

from odradek.core.controller.state import ControllerState, Decision
from odradek.core.metadata.versions import LEVEL_SCRAM
from odradek.core.sasl.scram_keys import BY_NUMBER, ITERATIONS_MAX, ITERATIONS_MIN, keys_of
from odradek.model.errors import ApiError, ErrorCode
from odradek.wire.generated.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from odradek.wire.generated.alter_user_scram_credentials_response import (
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from odradek.wire.generated.remove_user_scram_credential_record import (
    RemoveUserScramCredentialRecord,
)
from odradek.wire.generated.user_scram_credential_record import UserScramCredentialRecord
from odradek.wire.primitives import Message

Change = ScramCredentialDeletion | ScramCredentialUpsertion


def alter_user_scram_credentials(
    state: ControllerState, request: AlterUserScramCredentialsRequest, version: int
) -> Decision[AlterUserScramCredentialsResponse]:
    """Set and remove credentials. Each user has one result, with or without an error.

    The client sends the salted password. The records have only the keys that are computed from it.
    A user that the request names twice is not changed, even if the mechanisms differ.
    """
    changes: dict[str, Change] = {}
    errors: dict[str, ApiError] = {}
    wanted: list[Change] = [*request.deletions, *request.upsertions]
    for change in wanted:
        name = change.name
        if name in errors:
            continue
        try:
            if changes.pop(name, None) is not None:
                raise ApiError(
                    ErrorCode.DUPLICATE_RESOURCE,
                    "A user credential cannot be altered twice in the same request",
                )
            _check(state, change)
        except ApiError as error:
            errors[name] = error
        else:
            changes[name] = change
    results = [AlterUserScramCredentialsResult(user=name, error_message=None) for name in changes]
    results += [
        AlterUserScramCredentialsResult(
            user=name, error_code=error.code, error_message=error.message
        )
        for name, error in errors.items()
    ]
    response = AlterUserScramCredentialsResponse(results=results)
    return Decision([_record(change) for change in changes.values()], response)


def _check(state: ControllerState, change: Change) -> None:
    if state.level < LEVEL_SCRAM:
        raise ApiError(
            ErrorCode.UNSUPPORTED_VERSION, "The current metadata.version does not support SCRAM"
        )
    if not change.name:
        raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if change.mechanism not in BY_NUMBER:
        raise ApiError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    if isinstance(change, ScramCredentialDeletion):
        if (change.mechanism, change.name) not in state.image.scram:
            raise ApiError(
                ErrorCode.RESOURCE_NOT_FOUND,
                "Attempt to delete a user credential that does not exist",
            )
    elif change.iterations < ITERATIONS_MIN:
        raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    elif not change.salted_password:  # Apache Kafka: UNKNOWN_SERVER_ERROR
        raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "The salted password is empty")
    elif change.iterations > ITERATIONS_MAX:
        raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")


def _record(change: Change) -> Message:
    if isinstance(change, ScramCredentialDeletion):
        return RemoveUserScramCredentialRecord(name=change.name, mechanism=change.mechanism)
    keys = keys_of(BY_NUMBER[change.mechanism], change.salted_password)
    return UserScramCredentialRecord(
        name=change.name,
        mechanism=change.mechanism,
        salt=change.salt,
        stored_key=keys.stored_key,
        server_key=keys.server_key,
        iterations=change.iterations,
    )
