"""Random records, for tests and tutorials (`DatagenConnector`).

`quickstart` is `users`, `pageviews` or `orders`; the records have a schema and a key, as those of
Confluent's connector of this name. With `random.seed`, the same records come again.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from odradek.core.connect.api import Config, SourceConnector, SourceTask
from odradek.core.connect.config_def import (
    ConfigDef,
    ConfigType,
    Importance,
    at_least,
    non_empty,
    one_of_in_any_case,
)
from odradek.core.connect.data import (
    FLOAT64,
    INT32,
    INT64,
    STRING,
    Schema,
    Struct,
    struct_schema,
)
from odradek.core.connect.records import SourceRecord

_NAMESPACE = "ksql."
_START_MS = 1_487_715_775_521
_ADDRESS = struct_schema(
    [("city", STRING), ("state", STRING), ("zipcode", INT64)], name=_NAMESPACE + "address"
)
_USERS = struct_schema(
    [("registertime", INT64), ("userid", STRING), ("regionid", STRING), ("gender", STRING)],
    name=_NAMESPACE + "users",
)
_PAGEVIEWS = struct_schema(
    [("viewtime", INT64), ("userid", STRING), ("pageid", STRING)], name=_NAMESPACE + "pageviews"
)
_ORDERS = struct_schema(
    [
        ("ordertime", INT64),
        ("orderid", INT32),
        ("itemid", STRING),
        ("orderunits", FLOAT64),
        ("address", _ADDRESS),
    ],
    name=_NAMESPACE + "orders",
)

Make = Callable[[random.Random, int], tuple[Any, dict[str, Any]]]


def _user(numbers: random.Random, _: int) -> tuple[Any, dict[str, Any]]:
    name = f"User_{numbers.randint(1, 9)}"
    return name, {
        "registertime": numbers.randint(1_487_715_775_521, 1_519_273_364_600),
        "userid": name,
        "regionid": f"Region_{numbers.randint(1, 9)}",
        "gender": numbers.choice(["MALE", "FEMALE", "OTHER"]),
    }


def _pageview(numbers: random.Random, count: int) -> tuple[Any, dict[str, Any]]:
    viewed = 1 + 10 * count
    return str(viewed), {
        "viewtime": viewed,
        "userid": f"User_{numbers.randint(1, 9)}",
        "pageid": f"Page_{numbers.randint(10, 99)}",
    }


def _order(numbers: random.Random, count: int) -> tuple[Any, dict[str, Any]]:
    return count, {
        "ordertime": numbers.randint(_START_MS, 1_519_273_364_600),
        "orderid": count,
        "itemid": f"Item_{numbers.randint(1, 999)}",
        "orderunits": numbers.uniform(0.1, 10.0),
        "address": Struct(
            _ADDRESS,
            {
                "city": f"City_{numbers.randint(1, 99)}",
                "state": f"State_{numbers.randint(1, 99)}",
                "zipcode": numbers.randint(10_000, 99_999),
            },
        ),
    }


_KINDS: dict[str, tuple[Schema, Schema, Make]] = {
    "USERS": (STRING, _USERS, _user),
    "PAGEVIEWS": (STRING, _PAGEVIEWS, _pageview),
    "ORDERS": (INT32, _ORDERS, _order),
}

CONFIG = (
    ConfigDef()
    .define(
        "kafka.topic",
        ConfigType.STRING,
        importance=Importance.HIGH,
        documentation="The topic to write to.",
        validator=non_empty,
    )
    .define(
        "quickstart",
        ConfigType.STRING,
        importance=Importance.HIGH,
        documentation="What the records are: users, pageviews or orders.",
        validator=one_of_in_any_case(*_KINDS),
    )
    .define(
        "max.interval",
        ConfigType.LONG,
        500,
        Importance.HIGH,
        "The longest time between two records, in ms.",
        validator=at_least(0),
    )
    .define(
        "iterations",
        ConfigType.INT,
        -1,
        Importance.HIGH,
        "How many records each task writes; without end if it is negative.",
    )
    .define(
        "random.seed",
        ConfigType.LONG,
        None,
        Importance.LOW,
        "The seed: the same seed makes the same records.",
    )
)


class DatagenTask(SourceTask):
    """Makes records."""

    def __init__(self) -> None:
        self._numbers = random.Random()  # noqa: S311 - test data
        self._pauses = random.Random()  # noqa: S311 - not a secret
        self._stopping = threading.Event()
        self._count = 0
        self._topic = ""
        self._task = 0
        self._most = -1
        self._interval_ms = 0
        self._kind = _KINDS["USERS"]

    def start(self, config: Config) -> None:
        """See `Task`."""
        parsed = CONFIG.parse(config)
        self._topic = parsed["kafka.topic"]
        self._most = parsed["iterations"]
        self._interval_ms = parsed["max.interval"]
        self._kind = _KINDS[parsed["quickstart"].upper()]
        self._task = int(config.get("task.id", "0"))
        seed = parsed["random.seed"]
        offset = self.context.offset({"task.id": self._task})
        self._count = 0 if offset is None else int(offset.get("current.iteration", 0))
        if seed is not None:
            self._numbers = random.Random(seed + self._task)  # noqa: S311 - test data
            for count in range(self._count):
                self._kind[2](self._numbers, count)

    def poll(self) -> list[SourceRecord] | None:
        """See `SourceTask`."""
        if 0 <= self._most <= self._count:
            self._stopping.wait(1.0)
            return None
        if self._interval_ms:
            self._stopping.wait(self._pauses.random() * self._interval_ms / 1000)
        key_schema, value_schema, make = self._kind
        key, fields = make(self._numbers, self._count)
        self._count += 1
        record = SourceRecord(
            topic=self._topic,
            key_schema=key_schema,
            key=key,
            value_schema=value_schema,
            value=Struct(value_schema, fields),
            timestamp=round(time.time() * 1000),
            source_partition={"task.id": self._task},
            source_offset={"current.iteration": self._count},
        )
        return [record]

    def stop(self) -> None:
        """See `Task`."""
        self._stopping.set()


class DatagenConnector(SourceConnector):
    """See the module."""

    java_name: ClassVar[str] = "io.confluent.kafka.connect.datagen.DatagenConnector"
    task_class = DatagenTask

    def __init__(self) -> None:
        self._config: Config = {}

    @classmethod
    def config(cls) -> ConfigDef:
        """See `Connector`."""
        return CONFIG

    def start(self, config: Config) -> None:
        """See `Connector`."""
        CONFIG.parse(config)
        self._config = config

    def task_configs(self, max_tasks: int) -> Sequence[Config]:
        """See `Connector`."""
        return [{**self._config, "task.id": str(index)} for index in range(max_tasks)]
