"""Builds the response to a request that failed as a whole, with one error code.

Most responses have a top-level error code. The other responses have an error code per requested
topic, partition, group or resource. For these, `_SHAPES` defines which array of the response
corresponds to which array of the request. If an API needs more, its handler defines
`error_response`.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple, get_args, get_type_hints

from odradek.model import api_keys
from odradek.model.errors import ErrorCode
from odradek.wire.api import BY_KEY
from odradek.wire.primitives import Message
from odradek.wire.versions import ALL_VERSIONS, NO_VERSIONS, Versions


class _Level(NamedTuple):
    """An array of the response, and the array of the request from which it is built.

    `names` are pairs of a field of the response's element and a field of the request's element. If
    the second field is empty, the element of the request is itself the value.
    """

    source: str
    target: str
    names: tuple[tuple[str, str], ...]


class _Shape(NamedTuple):
    levels: tuple[_Level, ...]
    top: Versions = NO_VERSIONS
    """Versions whose response has a top-level error code, which is used instead of `levels`."""


def _shape(text: str, top: Versions = NO_VERSIONS) -> _Shape:
    """Parse a shape such as `topics>results:name,id=topic_id partitions>partitions:index=`.

    Each word is a `_Level`: the source, the target and the names.
    """
    levels = []
    for word in text.split():
        arrays, _, fields = word.partition(":")
        source, _, target = arrays.partition(">")
        names = []
        for field in fields.split(","):
            name, equals, other = field.partition("=")
            names.append((name, other if equals else name))
        levels.append(_Level(source, target, tuple(names)))
    return _Shape(tuple(levels), top)


_PARTITIONS = "partitions>partitions:partition_index"
_RESOURCES = "resource_type,resource_name"
_SHAPES = {
    api_keys.LIST_OFFSETS: _shape(f"topics>topics:name {_PARTITIONS}"),
    api_keys.OFFSET_COMMIT: _shape(f"topics>topics:name,topic_id {_PARTITIONS}"),
    api_keys.OFFSET_FETCH: _shape("groups>groups:group_id", Versions(0, 7)),
    api_keys.DESCRIBE_GROUPS: _shape("groups>groups:group_id="),
    api_keys.CREATE_TOPICS: _shape("topics>topics:name"),
    api_keys.DELETE_RECORDS: _shape(f"topics>topics:name {_PARTITIONS}"),
    api_keys.OFFSET_FOR_LEADER_EPOCH: _shape("topics>topics:topic partitions>partitions:partition"),
    api_keys.TXN_OFFSET_COMMIT: _shape(f"topics>topics:name,topic_id {_PARTITIONS}"),
    api_keys.DESCRIBE_CONFIGS: _shape(f"resources>results:{_RESOURCES}"),
    api_keys.ALTER_CONFIGS: _shape(f"resources>responses:{_RESOURCES}"),
    api_keys.DESCRIBE_LOG_DIRS: _shape("", ALL_VERSIONS),
    api_keys.CREATE_PARTITIONS: _shape("topics>results:name"),
    api_keys.DELETE_GROUPS: _shape("groups_names>results:group_id="),
    api_keys.INCREMENTAL_ALTER_CONFIGS: _shape(f"resources>responses:{_RESOURCES}"),
    api_keys.DESCRIBE_PRODUCERS: _shape(
        "topics>topics:name partition_indexes>partitions:partition_index="
    ),
    api_keys.DESCRIBE_TRANSACTIONS: _shape(
        "transactional_ids>transaction_states:transactional_id="
    ),
    api_keys.CONSUMER_GROUP_DESCRIBE: _shape("group_ids>groups:group_id="),
    api_keys.SHARE_GROUP_DESCRIBE: _shape("group_ids>groups:group_id="),
    api_keys.STREAMS_GROUP_DESCRIBE: _shape("group_ids>groups:group_id="),
    api_keys.DESCRIBE_TOPIC_PARTITIONS: _shape("topics>topics:name"),
    **{
        key: _shape("topics>results:topic_id partitions>partitions:partition")
        for key in (
            api_keys.INITIALIZE_SHARE_GROUP_STATE,
            api_keys.READ_SHARE_GROUP_STATE,
            api_keys.WRITE_SHARE_GROUP_STATE,
            api_keys.DELETE_SHARE_GROUP_STATE,
            api_keys.READ_SHARE_GROUP_STATE_SUMMARY,
        )
    },
    api_keys.DESCRIBE_SHARE_GROUP_OFFSETS: _shape("groups>groups:group_id"),
}
_WHOLE = _Shape((), ALL_VERSIONS)
_CODE_ONLY = {api_keys.SHARE_FETCH, api_keys.SHARE_ACKNOWLEDGE}
"""Responses of APIs that have a field for a message, which Apache Kafka leaves empty."""


def error_answer(request: Message, version: int, code: ErrorCode, message: str | None) -> Message:
    """Return the response that rejects the whole request."""
    key = request.API_KEY
    assert key is not None
    if key in _CODE_ONLY:
        message = None
    response = BY_KEY[key].response_class()()
    shape = _SHAPES.get(key, _WHOLE)
    if version in shape.top:
        _set(response, code, message)
    elif shape.levels:
        _fill(response, request, shape.levels, code, message)
    return response


def _fill(
    target: Any, source: Any, levels: tuple[_Level, ...], code: ErrorCode, message: str | None
) -> None:
    level, *rest = levels
    owner: Any = type(target)
    element_class = _element_class(owner, level.target)
    elements = getattr(target, level.target)
    for each in getattr(source, level.source) or ():
        values = {name: getattr(each, other) if other else each for name, other in level.names}
        element = element_class(**values)
        if rest:
            _fill(element, each, tuple(rest), code, message)
        else:
            _set(element, code, message)
        elements.append(element)


@cache
def _element_class(owner: Any, field: str) -> Any:
    """Return the class of an array's elements, from the annotation of the generated field."""
    hints = get_type_hints(vars(owner)["__init__"])
    return get_args(hints[field])[0]


def _set(target: Any, code: ErrorCode, message: str | None) -> None:
    target.error_code = code
    if "error_message" in type(target).__slots__:
        target.error_message = message
