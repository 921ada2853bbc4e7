"""Runs connectors: `odradek connect` ([docs/connect.md](../../../docs/connect.md)).

This package has the threads and connections of a worker. What it decides is in `odradek.core.connect`.

- `clients` makes the Kafka clients that connectors use. `stores` keeps configurations, states and offsets.
- `registry` finds plugins.
- `host` runs the code of a connector in a thread of its own, `task_process` that of a task in a process. `source_runner` and `sink_runner`
  run tasks, `error_handler` repeats and tolerates what fails.
- `herder` decides and performs all changes in one thread, `worker` starts and stops tasks.
- `rest_api` answers requests, `standalone` is the process.

The classes that a connector is made of:

    from odradek.connect import SourceConnector, SourceRecord, SourceTask
"""

from odradek.core.connect.api import (
    Connector,
    SinkConnector,
    SinkTask,
    SourceConnector,
    SourceTask,
)
from odradek.core.connect.config_def import ConfigDef, ConfigType, Importance
from odradek.core.connect.data import Schema, Struct, Type, struct_schema
from odradek.core.connect.errors import ConfigError, ConnectError, DataError, RetriableError
from odradek.core.connect.records import Header, Headers, SinkRecord, SourceRecord

__all__ = [
    "ConfigDef",
    "ConfigError",
    "ConfigType",
    "ConnectError",
    "Connector",
    "DataError",
    "Header",
    "Headers",
    "Importance",
    "RetriableError",
    "Schema",
    "SinkConnector",
    "SinkRecord",
    "SinkTask",
    "SourceConnector",
    "SourceRecord",
    "SourceTask",
    "Struct",
    "Type",
    "struct_schema",
]
