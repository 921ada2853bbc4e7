"""The handlers that a node serves, bound to the node's broker."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import odradek.handlers
from odradek.broker.broker import Broker
from odradek.broker.clients.request_context import RequestContext
from odradek.broker.controller.controller import Controller
from odradek.config.broker_config import BrokerConfig
from odradek.handlers.handler import Handler
from odradek.network.peer import Peer

Bound = Callable[[RequestContext, Any], Any]
Quick = Callable[[Peer, memoryview, int, int, int], bytes | None]
Table = dict[int, tuple[Handler, Bound, Quick | None]]
"""API key -> the handler, its function of (context, request), and its fast path or None."""


def handlers() -> Iterator[Handler]:
    """Yield all handlers, ordered by API key."""
    for module in sorted(pkgutil.iter_modules(odradek.handlers.__path__), key=lambda m: m.name):
        if module.name[:1] == "k" and module.name[1:3].isdigit():
            yield importlib.import_module(f"odradek.handlers.{module.name}").HANDLER


def broker_table(broker: Broker) -> Table:
    """Return the handlers of broker listeners."""
    table: Table = {}
    for handler in _broker_handlers(broker.config):
        if handler.handle is not None:
            quick = None if handler.quick is None else partial(handler.quick, broker)
            table[_key(handler)] = (handler, partial(handler.handle, broker), quick)
        else:
            table[_key(handler)] = (handler, broker.controller.submit, None)
    return table


def _broker_handlers(config: BrokerConfig) -> Iterator[Handler]:
    """Yield the handlers of broker listeners, with the versions that the configuration enables."""
    for handler in handlers():
        if handler.handle is None and not handler.forwarded:
            continue
        if handler.unstable_version is not None and config.unstable_api_versions_enable:
            yield replace(handler, versions=(handler.versions[0], handler.unstable_version))
        else:
            yield handler


def _key(handler: Handler) -> int:
    key = handler.request.API_KEY
    assert key is not None
    return key


def controller_table(controller: Controller) -> Table:
    """Return the handlers of controller listeners."""
    table: Table = {}
    for handler in handlers():
        if handler.controller is not None:
            table[_key(handler)] = (handler, partial(handler.controller, controller), None)
    return table


def served_versions(config: BrokerConfig) -> list[tuple[int, int, int]]:
    """Return the API versions of broker listeners: (API key, lowest, highest version)."""
    return sorted((_key(each), *each.versions) for each in _broker_handlers(config))


def controller_versions() -> list[tuple[int, int, int]]:
    """Return the API versions of controller listeners: (API key, lowest, highest version)."""
    found = (each for each in handlers() if each.controller is not None)
    return sorted((_key(each), *each.versions) for each in found)
