"""Descriptions of groups of one type, for the APIs that describe only this type."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

from odradek.core.group.group import Group
from odradek.core.group.state import GroupState
from odradek.model.errors import ErrorCode

GroupT = TypeVar("GroupT", bound=Group)
DescribedT_co = TypeVar("DescribedT_co", covariant=True)


class Described(Protocol[DescribedT_co]):
    """The class of a description in a response."""

    def __call__(
        self, *, group_id: str, error_code: int, error_message: str | None
    ) -> DescribedT_co:
        """Return the description of a group that is not described."""
        ...


def described(
    state: GroupState,
    group_ids: Iterable[str],
    group_class: type[GroupT],
    describe: Callable[[GroupT], DescribedT_co],
    description_class: Described[DescribedT_co],
) -> list[DescribedT_co]:
    """Describe groups. Groups of other types get the same error code as missing groups."""
    found = []
    for group_id in group_ids:
        group = state.groups.get(group_id)
        if isinstance(group, group_class):
            found.append(describe(group))
            continue
        kind = group_class.type.value
        what = "not found" if group is None else f"not a {kind} group"
        found.append(
            description_class(
                group_id=group_id,
                error_code=ErrorCode.GROUP_ID_NOT_FOUND,
                error_message=f"Group {group_id} is {what}.",
            )
        )
    return found
