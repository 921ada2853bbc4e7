"""A standalone worker: a process with connectors, their tasks, the REST API, and offsets in a file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from odradek.config.checks import ConfigurationError
from odradek.config.properties import parse_properties
from odradek.connect.herder import Herder
from odradek.connect.running_worker import RunningWorker
from odradek.connect.standalone_herder import StandaloneHerder
from odradek.connect.stores import FileOffsetStore
from odradek.core.connect.config_log import INITIAL_STATES
from odradek.core.connect.errors import ConnectError
from odradek.core.connect.java_text import json_bytes
from odradek.core.connect.plugins import Plugins


class StandaloneWorker(RunningWorker):
    """See the module."""

    def __init__(self, given: Mapping[str, str], plugins: Plugins) -> None:
        """Read the settings, listen, and read the offsets.

        Raises:
            ConnectError: a setting is missing or invalid, or the file of offsets cannot be used.
            OSError: the address of the REST API cannot be used.
        """
        super().__init__(given, plugins, is_distributed=False)

    def _make_herder(self, plugins: Plugins) -> Herder:
        offsets = FileOffsetStore(Path(self.config.text("offset.storage.file.filename")))
        return StandaloneHerder(self.config, plugins, self.clients, offsets, self.worker_id)

    def create(self, name: str, config: Mapping[str, str | None], state: str | None = None) -> None:
        """Create a connector, as a request would; `state` is RUNNING, PAUSED or STOPPED.

        Raises:
            ConnectError: its configuration is invalid, or it does not start.
        """
        initial = None if state is None else INITIAL_STATES[state]
        self.herder.put_connector(name, config, initial, may_replace=True).result()


def read_properties(path: Path) -> dict[str, str]:
    """Return the settings in a file of Java's properties.

    Raises:
        ConnectError: it cannot be read.
    """
    try:
        return parse_properties(path.read_bytes())
    except (OSError, ConfigurationError) as error:
        raise ConnectError(f"{path} cannot be read: {error}") from error


def read_connector(path: Path) -> tuple[str, dict[str, str | None], str | None]:
    """Return name, configuration and initial state of a connector in a file: properties or JSON.

    Raises:
        ConnectError: it cannot be read.
    """
    if path.suffix != ".json":
        config: dict[str, str | None] = dict(read_properties(path))
        return config.get("name") or "", config, None
    try:
        found: Any = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise ConnectError(f"{path} cannot be read: {error}") from error
    if not isinstance(found, dict):
        raise ConnectError(f"{path} has no JSON object")
    state = None
    if isinstance(found.get("config"), dict):
        state = found.get("initial_state")
        if state is not None and str(state).upper() not in INITIAL_STATES:
            raise ConnectError(f"{path}: initial_state must be RUNNING, PAUSED or STOPPED")
        name = str(found.get("name") or "")
        config = {"name": name, **{k: _text(v) for k, v in found["config"].items()}}
    else:
        config = {k: _text(v) for k, v in found.items()}
        name = config.get("name") or ""
    return name, config, None if state is None else str(state).upper()


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json_bytes(value).decode()
