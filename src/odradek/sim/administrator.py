"""Changes the metadata of a simulated cluster while nodes fail."""

from __future__ import annotations

from odradek.model.config_resource import ResourceType
from odradek.model.errors import ErrorCode as E
from odradek.sim.workload import NOT_NOW, Actor
from odradek.wire.generated.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.wire.generated.incremental_alter_configs_response import (
    IncrementalAlterConfigsResponse,
)

NO_CONTROLLER = NOT_NOW | {E.NOT_CONTROLLER, E.BROKER_NOT_AVAILABLE}
"""Errors after which a change of the metadata may take effect later, or never."""
SETTING, VALUE = "consumer.session.timeout.ms", "45000"


class Administrator(Actor):
    """Sets a setting of one group after the other. The groups need not exist.

    So each acknowledged change must be in the metadata at the end.
    """

    async def run(self) -> None:
        """See `Actor`."""
        number = 0
        while not self.is_stopping:
            number += 1
            await self._set(f"group {number}")
            await self.pause(0.5)

    async def _set(self, group: str) -> None:
        change = AlterableConfig(name=SETTING, config_operation=0, value=VALUE)
        resource = AlterConfigsResource(
            resource_type=ResourceType.GROUP, resource_name=group, configs=[change]
        )
        request = IncrementalAlterConfigsRequest(resources=[resource])
        response = await self.ask(request, IncrementalAlterConfigsResponse)
        if response is None:
            return
        code = response.responses[0].error_code
        if not code:
            self.facts.settings.append(group)
            self.facts.count("settings changed")
        elif code not in NO_CONTROLLER:
            self.unexpected("IncrementalAlterConfigs", code)
