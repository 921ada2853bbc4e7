"""The APIs that a node serves, bound to the node's broker or controller."""

from __future__ import annotations

from functools import partial

from odradek.broker.broker import Broker
from odradek.broker.controller.controller import Controller
from odradek.config.broker_config import BrokerConfig
from odradek.handlers.entry import Binding, Bound
from odradek.handlers.registry import SERVED, Served

Table = dict[int, Binding]
"""API key -> the served API."""


def broker_table(broker: Broker) -> Table:
    """Return the APIs of broker listeners."""
    return {
        each.key: Binding(
            each.version_min, _highest(each, broker.config), partial(bound_to_broker, broker, each)
        )
        for each in SERVED.values()
        if each.is_on_brokers
    }


def bound_to_broker(broker: Broker, served: Served) -> Bound:
    """Import the handler of an API that brokers serve."""
    handler = served.handler()
    if handler.handle is None:
        return Bound(handler, broker.controller.submit)
    quick = None if handler.quick is None else partial(handler.quick, broker)
    return Bound(handler, partial(handler.handle, broker), quick)


def _highest(served: Served, config: BrokerConfig) -> int:
    """Return the highest version that the configuration enables."""
    if served.unstable_version is not None and config.unstable_api_versions_enable:
        return served.unstable_version
    return served.version_max


def controller_table(controller: Controller) -> Table:
    """Return the APIs of controller listeners."""
    return {
        each.key: Binding(
            each.version_min, each.version_max, partial(_on_controller, controller, each)
        )
        for each in SERVED.values()
        if each.is_on_controllers
    }


def _on_controller(controller: Controller, served: Served) -> Bound:
    handler = served.handler()
    assert handler.controller is not None
    return Bound(handler, partial(handler.controller, controller))


def served_versions(config: BrokerConfig) -> list[tuple[int, int, int]]:
    """Return the API versions of broker listeners: (API key, lowest, highest version)."""
    return [
        (each.key, each.version_min, _highest(each, config))
        for each in SERVED.values()
        if each.is_on_brokers
    ]


def controller_versions() -> list[tuple[int, int, int]]:
    """Return the API versions of controller listeners: (API key, lowest, highest version)."""
    return [
        (each.key, each.version_min, each.version_max)
        for each in SERVED.values()
        if each.is_on_controllers
    ]
