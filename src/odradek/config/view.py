"""The base class of typed views, which have attributes for settings.

A view declares its attributes as annotations. The attribute `log_dirs` is the setting `log.dirs`. A
subclass sets the computed attributes. Views are immutable, so a change of settings creates a new
view.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NoReturn


class View:
    """A view with attributes that are set once."""

    def _fill(self, names: Iterable[str], value: Callable[[str], object]) -> None:
        """Set the attributes `names` to the values of the settings with the same names."""
        attributes = self.__dict__
        for name in names:
            attributes[name] = value(name.replace("_", "."))

    def _set(self, **values: object) -> None:
        self.__dict__.update(values)

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError(f"{type(self).__name__}.{name} cannot be changed")

    def __repr__(self) -> str:
        values = ", ".join(f"{k}={v!r}" for k, v in self.__dict__.items() if k[0] != "_")
        return f"{type(self).__name__}({values})"
