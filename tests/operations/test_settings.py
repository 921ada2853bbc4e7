"""Which settings a resource may get, and what is advised about those it may not."""

from __future__ import annotations

from odradek.client.admin.configs import ConfigEntry, Resource
from odradek.model.config_resource import ResourceType, Source
from odradek.operations.settings import advice, unknown_names


def entry(name: str, *, read_only: bool = False) -> ConfigEntry:
    return ConfigEntry(name, "1", Source.DEFAULT, read_only, False, "LONG", (), None)


KNOWN = {
    each.name: each
    for each in (
        entry("log.retention.hours", read_only=True),
        entry("log.retention.ms"),
        entry("broker.id", read_only=True),
    )
}


def test_names_that_the_resource_does_not_have() -> None:
    broker = Resource(ResourceType.BROKER, "1")
    names = ["log.retention.ms", "log.retention.days", "listener.name.external.ssl.keystore.type"]
    assert unknown_names(broker, names, KNOWN) == ["log.retention.days"]


def test_a_logger_exists_as_soon_as_it_is_named() -> None:
    assert unknown_names(Resource(ResourceType.BROKER_LOGGER, "1"), ["odradek.new"], {}) == []


def test_another_unit_may_be_set_while_brokers_run() -> None:
    hint = "log.retention.ms can be set while brokers run."
    assert advice(["log.retention.hours"], KNOWN) == hint
    assert advice(["broker.id", "log.retention.ms", "unknown.hours"], KNOWN) == ""
