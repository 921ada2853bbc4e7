"""Reads and changes the offsets of a connector (KIP-875): of a source in its store, of a sink in its group."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from odradek.client.admin.groups import delete_groups
from odradek.client.commits import commit_offsets, delete_offsets, fetch_offsets
from odradek.client.errors import ClientError
from odradek.client.group_metadata import CommittedOffset
from odradek.connect.clients import Clients
from odradek.connect.offset_stores import OffsetStores
from odradek.core.connect import answers
from odradek.core.connect import connector_config as base
from odradek.core.connect.api import SinkConnector
from odradek.core.connect.client_names import sink_group, transactional_id
from odradek.core.connect.errors import ConnectError
from odradek.core.connect.plugins import CONNECTORS, Plugins
from odradek.model.topic_partition import TopicPartition

Json = dict[str, Any]
Texts = Mapping[str, str]
Wanted = list[tuple[Json, Json | None]]


class OffsetChanges:
    """See the module."""

    def __init__(
        self,
        clients: Clients,
        plugins: Plugins,
        stores: OffsetStores,
        is_sink: Callable[[Texts], bool],
        group: str | None = None,
    ) -> None:
        """With `group`, that of the workers, offsets of sources are written in transactions."""
        self._group = group
        self._clients = clients
        self._plugins = plugins
        self._stores = stores
        self._is_sink = is_sink

    def offsets(self, name: str, config: Texts) -> Json:
        """Return the offsets of a connector."""
        try:
            is_sink = self._is_sink(config)
        except LookupError as error:
            raise ConnectError(f"Failed to find class {error}") from None
        if not is_sink:
            with self._stores.opened(name, config) as store:
                return answers.offsets_answer(store.of_connector(name))
        with self._clients.cluster(f"connector-adminclient-{name}", "admin", config) as cluster:
            committed = fetch_offsets(cluster, sink_group(config, name))
        entries = answers.sink_offsets({k: v.offset for k, v in committed.items()})
        return answers.offsets_answer(entries)

    def change(self, name: str, config: Texts, wanted: Wanted | None) -> Json:
        """Set offsets; None resets all. Return the answer. This calls user code."""
        made = self._plugins.find(config.get(base.CLASS, ""), *CONNECTORS).made()
        if isinstance(made, SinkConnector):
            return self._change_sink(name, config, made, wanted)
        return self._change_source(name, config, made, wanted)

    def _change_source(
        self,
        name: str,
        config: Texts,
        made: Any,
        wanted: Wanted | None,
    ) -> Json:
        is_reset = wanted is None
        identity = None if self._group is None else transactional_id(self._group, name, 0)
        with self._stores.opened(name, config, identity) as store:
            if wanted is None:
                wanted = [(partition, None) for partition, _ in store.of_connector(name)]
            is_known = made.alter_offsets(config, wanted)
            store.write(name, wanted)
        return answers.offsets_message(is_known=is_known, is_reset=is_reset)

    def _change_sink(
        self,
        name: str,
        config: Texts,
        made: SinkConnector,
        wanted: Wanted | None,
    ) -> Json:
        group = sink_group(config, name)
        with self._clients.cluster(f"connector-adminclient-{name}", "admin", config) as cluster:
            if wanted is None:
                present: dict[TopicPartition, int | None]
                present = dict.fromkeys(fetch_offsets(cluster, group))
                is_known = made.alter_offsets(config, present)
                error = delete_groups(cluster, [group])[group] if present else None
                _raise(error, name)
                return answers.offsets_message(is_known=is_known, is_reset=True)
            parsed = answers.parse_sink_offsets(wanted)
            is_known = made.alter_offsets(config, parsed)
            kept = {k: CommittedOffset(v) for k, v in parsed.items() if v is not None}
            gone = [each for each, offset in parsed.items() if offset is None]
            if kept:
                for failure in commit_offsets(cluster, group, kept).values():
                    _raise(failure, name)
            if gone:
                for failure in delete_offsets(cluster, group, gone).values():
                    _raise(failure, name)
            return answers.offsets_message(is_known=is_known, is_reset=False)


def _raise(error: ClientError | None, name: str) -> None:
    if error is not None:
        raise ConnectError(
            f"Failed to alter consumer group offsets for connector {name}: {error}"
        ) from error
