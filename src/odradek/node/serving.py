"""Which handlers a node serves, and how they are bound to its parts."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import odradek.handlers
from odradek.broker.broker import Broker
from odradek.broker.context import RequestContext
from odradek.broker.controller.quorum_controller import QuorumController
from odradek.handlers.handler import Handler
from odradek.network.peer import Peer

Bound = Callable[[RequestContext, Any], Any]
Quick = Callable[[Peer, memoryview, int, int, int], bytes | None]
Table = dict[int, tuple[Handler, Bound, Quick | None]]
"""By API key: the handler, its function of (context, request), and its quick one if it has one."""


def handlers() -> Iterator[Handler]:
    """All handlers, by key."""
    for module in sorted(pkgutil.iter_modules(odradek.handlers.__path__), key=lambda m: m.name):
        if module.name[:1] == "k" and module.name[1:3].isdigit():
            yield importlib.import_module(f"odradek.handlers.{module.name}").HANDLER


def broker_table(broker: Broker) -> Table:
    """What broker listeners serve."""
    table: Table = {}
    for handler in handlers():
        key = handler.request.API_KEY
        assert key is not None
        if handler.unstable_version is not None and broker.config.unstable_api_versions_enable:
            handler = replace(handler, versions=(handler.versions[0], handler.unstable_version))
        if handler.handle is not None:
            quick = None if handler.quick is None else partial(handler.quick, broker)
            table[key] = (handler, partial(handler.handle, broker), quick)
        elif handler.forwarded:
            table[key] = (handler, broker.controller.submit, None)
    return table


def controller_table(broker: Broker, controller: QuorumController) -> Table:
    """What controller listeners serve. Handlers get the broker of this node and its controller."""
    table: Table = {}
    for handler in handlers():
        key = handler.request.API_KEY
        assert key is not None
        if handler.controller is not None:
            table[key] = (handler, partial(handler.controller, broker), None)
    return table


def served_versions(table: Table) -> list[tuple[int, int, int]]:
    """What ApiVersions tells of a table: (API key, lowest, highest version)."""
    return [(key, *handler.versions) for key, (handler, _, _) in sorted(table.items())]
