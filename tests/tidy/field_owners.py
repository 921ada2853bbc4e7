"""A plugin of mypy: a field is written only by methods of the class that declares it.

`other.field = value` in any other place is an error of the type checker. A property with a setter is
no field: its owner decides what an assignment means. Messages of the protocol
(`odradek.wire.generated`) are data, and are filled in by whoever makes them.

`test_field_owners.py` shows that it finds a planted violation.
"""

from __future__ import annotations

from collections.abc import Callable

from mypy.errorcodes import ErrorCode
from mypy.nodes import TypeInfo, Var
from mypy.plugin import AttributeContext, Plugin
from mypy.types import Type

CODE = ErrorCode("field-owner", "A field is written from outside of its class", "General")
DATA = "odradek.wire.generated."


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


def _check(fullname: str, context: AttributeContext) -> None:
    owner_name, _, field = fullname.rpartition(".")
    checker = context.api
    scopes = [each for each in checker.scope.stack if isinstance(each, TypeInfo)]  # type: ignore[attr-defined]
    for scope in scopes:
        if any(base.fullname == owner_name for base in scope.mro):
            return
    if _is_field(checker, owner_name, field):
        checker.fail(f"{fullname} is written from outside of its class", context.context, code=CODE)


def _is_field(checker: object, owner_name: str, field: str) -> bool:
    module, _, name = owner_name.rpartition(".")
    tree = checker.modules.get(module)  # type: ignore[attr-defined]
    found = None if tree is None else tree.names.get(name)
    if found is None or not isinstance(found.node, TypeInfo):
        return True
    symbol = found.node.names.get(field)
    return symbol is not None and isinstance(symbol.node, Var)


def plugin(_version: str) -> type[Plugin]:
    """What mypy asks for."""
    return FieldOwners
