"""Records which threads call a function."""

from __future__ import annotations

import threading
from types import ModuleType

import pytest


def threads_of(monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str) -> list[str]:
    """Return a list that gets the name of the thread with each call of a module's function."""
    function = getattr(module, name)
    names: list[str] = []

    def recorded(*arguments: object) -> object:
        names.append(threading.current_thread().name)
        return function(*arguments)

    monkeypatch.setattr(module, name, recorded)
    return names
