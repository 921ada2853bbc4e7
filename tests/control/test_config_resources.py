"""The results of AlterConfigs and IncrementalAlterConfigs, from this node and from the controller."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from odradek.handlers.config_resources import answers_in_order, repeated


class Resource(NamedTuple):
    resource_type: int
    resource_name: str
    said_by: str = ""


def test_the_controller_may_return_its_results_in_any_order() -> None:
    """Controllers of Apache Kafka do. For a resource that is repeated there is one result."""
    asked = [Resource(2, name) for name in ("a", "b", "here", "c", "b")]

    def here(resource: Resource) -> Resource | None:
        return resource._replace(said_by="here") if resource.resource_name == "here" else None

    async def by_controller(left: list[Resource]) -> list[Resource]:
        assert [each.resource_name for each in left] == ["a", "b", "c", "b"]
        return [Resource(2, name, "controller") for name in ("c", "b", "a")]

    found = asyncio.run(answers_in_order(asked, here, by_controller))
    assert [(each.resource_name, each.said_by) for each in found] == [
        ("a", "controller"),
        ("b", "controller"),
        ("here", "here"),
        ("c", "controller"),
    ]


def test_resources_of_different_types_are_not_repeated() -> None:
    asked = [
        Resource(2, "a"),
        Resource(4, "a"),
        Resource(2, "b"),
        Resource(4, "b"),
        Resource(2, "b"),
    ]
    assert repeated(asked) == {(2, "b")}
