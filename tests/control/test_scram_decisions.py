"""Decisions about SCRAM credentials."""

import hashlib
import hmac

import pytest

from odradek.core.metadata.snapshot import image_records
from odradek.model.errors import ErrorCode
from odradek.wire.generated.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from odradek.wire.generated.user_scram_credential_record import UserScramCredentialRecord

from .harness import Controller


def upsertion(name="alice", mechanism=1, iterations=4096, salted=b"salted"):
    return ScramCredentialUpsertion(
        name=name,
        mechanism=mechanism,
        iterations=iterations,
        salt=b"salt",
        salted_password=salted,
    )


def deletion(name="alice", mechanism=1):
    return ScramCredentialDeletion(name=name, mechanism=mechanism)


def alter(controller, *changes):
    """The (code, message) of each user."""
    request = AlterUserScramCredentialsRequest(
        deletions=[each for each in changes if isinstance(each, ScramCredentialDeletion)],
        upsertions=[each for each in changes if isinstance(each, ScramCredentialUpsertion)],
    )
    results = controller.ask(request).response.results
    return {each.user: (each.error_code, each.error_message) for each in results}


DONE = (0, None)


def test_a_credential_is_set_replaced_and_deleted():
    controller = Controller()
    assert alter(controller, upsertion(), upsertion("bob", 2)) == {"alice": DONE, "bob": DONE}
    stored = controller.image.scram[1, "alice"]
    key = hmac.new(b"salted", b"Client Key", "sha256").digest()
    assert stored == (
        b"salt",
        hashlib.sha256(key).digest(),
        hmac.new(b"salted", b"Server Key", "sha256").digest(),
        4096,
    )
    assert len(controller.image.scram[2, "bob"].stored_key) == 64
    assert alter(controller, upsertion(iterations=5000)) == {"alice": DONE}
    assert controller.image.scram[1, "alice"].iterations == 5000
    records = [
        r for r in image_records(controller.image) if isinstance(r, UserScramCredentialRecord)
    ]
    assert sorted(each.name for each in records) == ["alice", "bob"]
    assert alter(controller, deletion()) == {"alice": DONE}
    assert set(controller.image.scram) == {(2, "bob")}


TWICE = (
    ErrorCode.DUPLICATE_RESOURCE,
    "A user credential cannot be altered twice in the same request",
)
MISSING = (
    ErrorCode.RESOURCE_NOT_FOUND,
    "Attempt to delete a user credential that does not exist",
)


@pytest.mark.parametrize(
    ("changes", "outcome"),
    [
        ([upsertion(), upsertion()], TWICE),
        ([upsertion(), upsertion(), upsertion()], TWICE),
        ([upsertion(), upsertion(mechanism=2)], TWICE),
        ([deletion(), upsertion()], MISSING),
        ([deletion()], MISSING),
        (
            [deletion(mechanism=0)],
            (ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        ),
        (
            [upsertion(mechanism=3)],
            (ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        ),
        ([upsertion(iterations=4095)], (ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")),
        (
            [upsertion(salted=b"")],
            (ErrorCode.UNACCEPTABLE_CREDENTIAL, "The salted password is empty"),
        ),
        ([upsertion(iterations=16385)], (ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")),
    ],
)
def test_a_user_with_an_error_is_not_changed_but_others_are(changes, outcome):
    controller = Controller()
    assert alter(controller, *changes, upsertion("bob")) == {"alice": outcome, "bob": DONE}
    assert set(controller.image.scram) == {(1, "bob")}


def test_deleting_and_setting_an_existing_credential_is_an_error():
    controller = Controller()
    alter(controller, upsertion())
    before = controller.image.scram
    assert alter(controller, deletion(), upsertion(iterations=5000)) == {"alice": TWICE}
    assert controller.image.scram == before


def test_an_empty_name():
    code, message = alter(Controller(), upsertion(""))[""]
    assert (code, message) == (ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")


def test_an_old_metadata_version():
    outcome = (
        ErrorCode.UNSUPPORTED_VERSION,
        "The current metadata.version does not support SCRAM",
    )
    assert alter(Controller(elr=False, level=10), upsertion()) == {"alice": outcome}
