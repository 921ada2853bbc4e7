"""Kafka Streams in Python: streams, tables, joins, windows and state that recovers.

```python
from odradek.streams import App

app = App("word-count", "localhost:9092")
counts = (
    app.stream("lines", value=str)
    .flat_map_values(lambda line: line.lower().split())
    .group_by(lambda word: word)
    .count(store="counts")
)
counts.to_stream().to("word-counts")
```

`TestDriver` runs an application without a broker. See docs/streams.md.
"""

from odradek.core.streams.failures import Failure
from odradek.core.streams.model.errors import (
    EncodingError,
    ProcessingError,
    StreamsError,
    TopologyError,
)
from odradek.core.streams.model.records import Record, Stamped, Windowed
from odradek.core.streams.model.serdes import Int32
from odradek.core.streams.model.windows import (
    Hopping,
    JoinWindow,
    Session,
    Sliding,
    Tumbling,
    Unlimited,
)
from odradek.core.streams.processors.custom import Processor, ProcessorContext
from odradek.streams.app import App
from odradek.streams.columns import Column, col, key
from odradek.streams.dsl import Branches, GlobalTable, Stream, Table
from odradek.streams.grouped import Cogrouped, GroupedStream, GroupedTable, WindowedStream
from odradek.streams.plan.materialized import Store
from odradek.streams.queries.errors import (
    NoSuchStoreError,
    QueryError,
    StoreMovesError,
    StoreNotHereError,
)
from odradek.streams.test_driver import TestDriver

__all__ = [
    "App",
    "Branches",
    "Cogrouped",
    "Column",
    "EncodingError",
    "Failure",
    "GlobalTable",
    "GroupedStream",
    "GroupedTable",
    "Hopping",
    "Int32",
    "JoinWindow",
    "NoSuchStoreError",
    "ProcessingError",
    "Processor",
    "ProcessorContext",
    "QueryError",
    "Record",
    "Session",
    "Sliding",
    "Stamped",
    "Store",
    "StoreMovesError",
    "StoreNotHereError",
    "Stream",
    "StreamsError",
    "Table",
    "TestDriver",
    "TopologyError",
    "Tumbling",
    "Unlimited",
    "Windowed",
    "WindowedStream",
    "col",
    "key",
]
