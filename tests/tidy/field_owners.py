"""A plugin of mypy: a field is written only by methods of the class that declares it.

`other.field = value` in any other place is an error of the type checker, unless `EXCEPTIONS` lists
it. A property with a setter is no field: its owner decides what an assignment means. Messages of
the protocol (`odradek.wire.generated`) are data, and are filled in by whoever makes them.

`test_field_owners.py` shows that it finds a planted violation, and that no exception is left over.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from mypy.errorcodes import ErrorCode
from mypy.nodes import TypeInfo, Var
from mypy.plugin import AttributeContext, Plugin
from mypy.types import Type

CODE = ErrorCode("field-owner", "A field is written from outside of its class", "General")
DATA = "odradek.wire.generated."
EXCEPTIONS_FILE = Path(__file__).with_name("field_owners.txt")


def exceptions() -> set[tuple[str, str]]:
    """(module that writes, field as `module.Class.field`); the file only shrinks."""
    lines = EXCEPTIONS_FILE.read_text(encoding="utf-8").splitlines()
    return {
        (words[0], words[1])
        for words in (line.split() for line in lines)
        if len(words) == 2 and not words[0].startswith("#")
    }


class FieldOwners(Plugin):
    """See the module."""

    def get_attribute_hook(self, fullname: str) -> Callable[[AttributeContext], Type] | None:
        """See `Plugin`."""
        if not fullname.startswith("odradek.") or fullname.startswith(DATA):
            return None

        def check(context: AttributeContext) -> Type:
            if context.is_lvalue:
                _check(fullname, context)
            return context.default_attr_type

        return check

    def report_config_data(self, ctx: object) -> object:
        """The exceptions are part of what a cached result depends on."""
        return sorted(exceptions())


def _check(fullname: str, context: AttributeContext) -> None:
    owner_name, _, field = fullname.rpartition(".")
    checker = context.api
    scopes = [each for each in checker.scope.stack if isinstance(each, TypeInfo)]  # type: ignore[attr-defined]
    for scope in scopes:
        if any(base.fullname == owner_name for base in scope.mro):
            return
    module = checker.tree.fullname  # type: ignore[attr-defined]
    if not _is_field(checker, owner_name, field) or (module, fullname) in _EXCEPTIONS:
        return
    checker.fail(f"{fullname} is written from outside of its class", context.context, code=CODE)


def _is_field(checker: object, owner_name: str, field: str) -> bool:
    module, _, name = owner_name.rpartition(".")
    tree = checker.modules.get(module)  # type: ignore[attr-defined]
    found = None if tree is None else tree.names.get(name)
    if found is None or not isinstance(found.node, TypeInfo):
        return True
    symbol = found.node.names.get(field)
    return symbol is not None and isinstance(symbol.node, Var)


_EXCEPTIONS = exceptions()


def plugin(_version: str) -> type[Plugin]:
    """What mypy asks for."""
    return FieldOwners
