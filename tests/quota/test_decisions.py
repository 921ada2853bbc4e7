"""The controller's decisions about client quotas, and those that count for a quota."""

import math

import pytest
from tests.control.harness import Controller

from odradek.core.metadata.snapshot import image_records
from odradek.model.errors import ErrorCode
from odradek.wire.generated.alter_client_quotas_request import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from odradek.wire.generated.client_quota_record import ClientQuotaRecord

RATE = "producer_byte_rate"
ANN = (("user", "ann"),)


def entry(entity, **changes):
    ops = [
        OpData(key=name, value=value or 0.0, remove=value is None)
        for name, value in changes.items()
    ]
    return EntryData(entity=[EntityData(entity_type=k, entity_name=n) for k, n in entity], ops=ops)


def alter(controller, *entries, validate_only=False):
    request = AlterClientQuotasRequest(entries=list(entries), validate_only=validate_only)
    decision = controller.ask(request)
    return [each.error_code for each in decision.response.entries], decision.records


def test_limits_are_set_changed_and_removed():
    controller = Controller()
    both = (("user", None), ("client-id", "c"))
    assert alter(
        controller,
        entry(ANN, producer_byte_rate=5.0, request_percentage=0.5),
        entry(both, consumer_byte_rate=7.0),
        entry((("ip", None),), connection_creation_rate=3.0),
    )[0] == [0, 0, 0]
    of_both = (("client-id", "c"), ("user", None))
    assert dict(controller.image.client_quotas) == {
        ANN: {RATE: 5.0, "request_percentage": 0.5},
        of_both: {"consumer_byte_rate": 7.0},
        (("ip", None),): {"connection_creation_rate": 3.0},
    }
    found = [r for r in image_records(controller.image) if isinstance(r, ClientQuotaRecord)]
    assert len(found) == 4
    # What stays as it is gets no record, and neither does the removal of what is not there.
    assert alter(controller, entry(ANN, producer_byte_rate=5.0, consumer_byte_rate=None)) == (
        [0],
        [],
    )
    assert alter(controller, entry(ANN, producer_byte_rate=9.0), validate_only=True) == ([0], [])
    assert alter(controller, entry(ANN, producer_byte_rate=None, request_percentage=2.0))[0] == [0]
    assert controller.image.client_quotas[ANN] == {"request_percentage": 2.0}
    alter(controller, entry(ANN, request_percentage=None))
    assert ANN not in controller.image.client_quotas


@pytest.mark.parametrize(
    ("entity", "changes"),
    [
        ((), {RATE: 1.0}),
        ((("user", ""),), {RATE: 1.0}),
        ((("group", "g"),), {RATE: 1.0}),
        ((("ip", "1.2.3.4"), ("user", "ann")), {"connection_creation_rate": 1.0}),
        ((("ip", "no address"),), {"connection_creation_rate": 1.0}),
        ((("ip", "1.2.3.4"),), {RATE: 1.0}),
        (ANN, {"connection_creation_rate": 1.0}),
        (ANN, {"rate": 1.0}),
        (ANN, {RATE: 0.0}),
        (ANN, {RATE: -1.0}),
        (ANN, {RATE: 1.5}),
        (ANN, {RATE: 1e300}),
        (ANN, {RATE: math.nan}),
        (ANN, {"request_percentage": math.nan}),
        (ANN, {"controller_mutation_rate": math.inf}),
        ((("ip", None),), {"connection_creation_rate": 2.0**31}),
    ],
)
def test_what_is_invalid_changes_nothing(entity, changes):
    changes = {"consumer_byte_rate": 5.0, **changes} if entity == ANN else changes
    codes, records = alter(Controller(), entry(entity, **changes))
    assert (codes, records) == ([ErrorCode.INVALID_REQUEST], [])


def test_the_largest_whole_number():
    """As in Java, Long.MAX_VALUE is rounded up to a double."""
    controller = Controller()
    assert alter(controller, entry(ANN, producer_byte_rate=2.0**63))[0] == [0]
    assert alter(controller, entry(ANN, producer_byte_rate=2.0**64))[0] == [
        ErrorCode.INVALID_REQUEST
    ]


def test_an_entity_may_be_named_once_and_so_may_a_limit():
    controller = Controller()
    first, second = entry(ANN, producer_byte_rate=5.0), entry(ANN, producer_byte_rate=6.0)
    assert alter(controller, first, second)[0] == [ErrorCode.INVALID_REQUEST]
    assert controller.image.client_quotas[ANN] == {RATE: 5.0}  # as in Apache Kafka
    twice = entry((("user", "bob"),), producer_byte_rate=5.0)
    twice.ops.append(OpData(key=RATE, value=6.0))
    assert alter(controller, twice) == ([ErrorCode.INVALID_REQUEST], [])
