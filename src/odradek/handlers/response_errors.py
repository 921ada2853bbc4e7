"""Finds the error codes of a response, for the metric of errors.

Most responses have an error code of their own, or one for each of their elements. A message class is
examined once: which of its fields are error codes, and which are lists of classes that have some.
Produce and Fetch report their errors themselves, because their responses are many and long.
"""

from __future__ import annotations

import re
import sys
from typing import Any, NamedTuple

from odradek.wire.primitives import Message

_ERROR_CODE = "error_code"
_LIST = re.compile(r"list\[(\w+)\](?: \| None)?")


class _Plan(NamedTuple):
    has_code: bool
    lists: tuple[tuple[str, _Plan], ...]
    """Fields that are lists, and the plans of their elements."""

    @property
    def is_empty(self) -> bool:
        return not (self.has_code or self.lists)


_plans: dict[type, _Plan] = {}


def error_codes(response: Message) -> list[int]:
    """Return the error codes in a response, except 0."""
    plan = _plans.get(type(response))
    if plan is None:
        plan = _plans[type(response)] = _plan(type(response))
    found: list[int] = []
    if not plan.is_empty:
        _find(response, plan, found)
    return found


def _find(message: Any, plan: _Plan, found: list[int]) -> None:
    if plan.has_code and message.error_code:
        found.append(int(message.error_code))
    for field, inner in plan.lists:
        for element in getattr(message, field) or ():
            _find(element, inner, found)


def _plan(message_class: type) -> _Plan:
    module = vars(sys.modules[message_class.__module__])
    annotations: dict[str, str] = message_class.__init__.__annotations__  # type: ignore[misc]
    lists = []
    for field, annotation in annotations.items():
        match = _LIST.fullmatch(str(annotation))
        element = None if match is None else module.get(match[1])
        if isinstance(element, type) and hasattr(element, "__slots__"):
            inner = _plan(element)
            if not inner.is_empty:
                lists.append((field, inner))
    return _Plan(_ERROR_CODE in annotations, tuple(lists))
