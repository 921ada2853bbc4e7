"""The transforms and predicates of Apache Kafka, and Debezium's ExtractNewRecordState.

`OWN` has all classes. A transform of a part of the record has two classes, such as `Cast$Key` and
`Cast$Value`; `part` makes them.
"""

from odradek.core.connect.transforms.cast import CAST
from odradek.core.connect.transforms.debezium import ExtractNewRecordState
from odradek.core.connect.transforms.fields import (
    EXTRACT_FIELD,
    FLATTEN,
    HOIST_FIELD,
    MASK_FIELD,
    REPLACE_FIELD,
)
from odradek.core.connect.transforms.headers import HEADER_FROM, DropHeaders, InsertHeader
from odradek.core.connect.transforms.insert import INSERT_FIELD
from odradek.core.connect.transforms.predicates import (
    HasHeaderKey,
    RecordIsTombstone,
    TopicNameMatches,
)
from odradek.core.connect.transforms.records import (
    SET_SCHEMA_METADATA,
    Filter,
    RegexRouter,
    TimestampRouter,
    ValueToKey,
)
from odradek.core.connect.transforms.timestamps import TIMESTAMP_CONVERTER

OWN = (
    *CAST,
    *EXTRACT_FIELD,
    *FLATTEN,
    *HEADER_FROM,
    *HOIST_FIELD,
    *INSERT_FIELD,
    *MASK_FIELD,
    *REPLACE_FIELD,
    *SET_SCHEMA_METADATA,
    *TIMESTAMP_CONVERTER,
    DropHeaders,
    ExtractNewRecordState,
    Filter,
    InsertHeader,
    RegexRouter,
    TimestampRouter,
    ValueToKey,
    HasHeaderKey,
    RecordIsTombstone,
    TopicNameMatches,
)
"""All classes."""

__all__ = ["OWN"]
