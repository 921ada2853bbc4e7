"""The bodies of the REST API's answers, from what a worker knows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from odradek.core.connect.config_log import ConfigLog, RestartRequest, TaskId
from odradek.core.connect.errors import bad_request, not_found
from odradek.core.connect.status_log import FAILED, RESTARTING, Status, StatusLog
from odradek.model.topic_partition import TopicPartition

Json = dict[str, Any]

MUST_BE_STOPPED = (
    "Connectors must be in the STOPPED state before their offsets can be modified. This can be done for "
    "the specified connector by issuing a 'PUT' request to the '/connectors/{name}/stop' endpoint"
)
_EXTERNAL = (
    "The Connect framework-managed offsets for this connector have been {what} successfully. However, if "
    "this connector manages offsets externally, they will need to be manually {what} in the system that "
    "the connector uses."
)


def connector_info(log: ConfigLog, name: str, kind: str) -> Json:
    """Return a connector with its configuration and its tasks.

    Raises:
        RestError: there is no such connector.
    """
    config = log.config(name)
    if config is None:
        raise not_found(f"Connector {name} not found")
    tasks = [{"connector": each.connector, "task": each.task} for each in log.tasks(name)]
    return {"name": name, "config": config, "tasks": tasks, "type": kind}


def task_infos(log: ConfigLog, name: str) -> list[Json]:
    """Return the tasks of a connector with their configurations.

    Raises:
        RestError: there is no such connector.
    """
    if name not in log:
        raise not_found(f"Connector {name} not found")
    return [
        {"id": {"connector": name, "task": each.task}, "config": log.task_config(each)}
        for each in log.tasks(name)
    ]


def _state(status: Status, before: Json) -> Json:
    shown = {**before, "state": status.state, "worker_id": status.worker}
    shown["version"] = status.version
    if status.trace:
        shown["trace"] = status.trace
    return shown


def connector_status(log: StatusLog, name: str, kind: str) -> Json:
    """Return the states of a connector and its tasks.

    Raises:
        RestError: nothing is known about it.
    """
    status = log.connector(name)
    if status is None:
        raise not_found(f"No status found for connector {name}")
    return _status(name, status, log.tasks(name), kind)


def _status(name: str, status: Status, tasks: Iterable[tuple[int, Status]], kind: str) -> Json:
    return {
        "name": name,
        "connector": _state(status, {}),
        "tasks": [_state(each, {"id": number}) for number, each in tasks],
        "type": kind,
    }


def task_status(log: StatusLog, task: TaskId) -> Json:
    """Return the state of a task.

    Raises:
        RestError: nothing is known about it.
    """
    status = log.task(task)
    if status is None:
        raise not_found(f"No status found for task {task}")
    return _state(status, {"id": task.task})


class RestartPlan:
    """What a request to restart stops and starts again."""

    def __init__(self, request: RestartRequest, log: StatusLog, status: Status) -> None:
        def counts(each: Status) -> bool:
            return not request.only_failed or each.state == FAILED

        self.request = request
        self.restarts_connector = counts(status)
        tasks = log.tasks(request.connector)
        self.tasks = [
            TaskId(request.connector, number)
            for number, each in tasks
            if request.includes_tasks and counts(each)
        ]
        restarted = {each.task for each in self.tasks}
        self._status = _restarting(status) if self.restarts_connector else status
        self._tasks = [(n, _restarting(each) if n in restarted else each) for n, each in tasks]

    def answer(self, kind: str) -> Json:
        """Return the states as they will be."""
        return _status(self.request.connector, self._status, self._tasks, kind)


def _restarting(status: Status) -> Status:
    return Status(RESTARTING, status.worker, status.generation, status.trace, status.version)


def health(log: StatusLog, names: Iterable[str]) -> dict[str, str]:
    """Return the health of each connector: HEALTHY, DEGRADED (some tasks failed), FAILED or UNKNOWN."""
    found = {}
    for name in names:
        status = log.connector(name)
        tasks = [each.state for _, each in log.tasks(name)]
        failed = tasks.count(FAILED)
        if status is None:
            found[name] = "UNKNOWN"
        elif status.state == FAILED or (tasks and failed == len(tasks)):
            found[name] = "FAILED"
        else:
            found[name] = "DEGRADED" if failed else "HEALTHY"
    return found


# -- offsets ----------------------------------------------------------------------------------


def offsets_answer(entries: Iterable[tuple[Json, Json | None]]) -> Json:
    """Return the offsets of a connector."""
    return {"offsets": [{"partition": p, "offset": o} for p, o in entries]}


def sink_offsets(committed: Mapping[TopicPartition, int]) -> list[tuple[Json, Json | None]]:
    """Return the offsets of a sink in the shape of the REST API."""
    return [
        (
            {"kafka_partition": each.partition, "kafka_topic": each.topic},
            {"kafka_offset": offset},
        )
        for each, offset in sorted(committed.items())
    ]


def parse_offsets(body: Any) -> list[tuple[Json, Json | None]]:
    """Return the offsets of a request.

    Raises:
        RestError: there are none, or they have another shape.
    """
    listed = body.get("offsets") if isinstance(body, dict) else None
    if not isinstance(listed, list) or not listed:
        raise bad_request("Partitions / offsets need to be provided for an alter offsets request")
    found: list[tuple[Json, Json | None]] = []
    for each in listed:
        partition = each.get("partition") if isinstance(each, dict) else None
        offset = each.get("offset") if isinstance(each, dict) else None
        if not isinstance(partition, dict) or not (offset is None or isinstance(offset, dict)):
            raise bad_request(
                "Partitions / offsets need to be provided for an alter offsets request"
            )
        found.append((partition, offset))
    return found


def parse_sink_offsets(
    listed: Iterable[tuple[Json, Json | None]],
) -> dict[TopicPartition, int | None]:
    """Return offsets of a sink.

    Raises:
        RestError: a partition or an offset lacks something.
    """
    found: dict[TopicPartition, int | None] = {}
    for partition, offset in listed:
        if "kafka_topic" not in partition or "kafka_partition" not in partition:
            raise bad_request(
                "The partition for a sink connector offset must contain the keys 'kafka_topic' and "
                "'kafka_partition'"
            )
        topic, number = partition["kafka_topic"], partition["kafka_partition"]
        if topic is None:
            raise bad_request("Kafka topic names must be valid strings and may not be null")
        if number is None:
            raise bad_request("Kafka partitions must be valid numbers and may not be null")
        place = TopicPartition(str(topic), _number(number, "partition"))
        if offset is None:
            found[place] = None
            continue
        if "kafka_offset" not in offset:
            raise bad_request(
                "The offset for a sink connector should either be null or contain the key "
                "'kafka_offset'"
            )
        found[place] = _number(offset["kafka_offset"], "offset")
    return found


def _number(value: Any, what: str) -> int:
    try:
        if isinstance(value, bool | float):
            raise ValueError(value)
        return int(str(value))
    except ValueError:
        raise bad_request(
            f"Failed to parse the following Kafka {what} value in the provided offsets: '{value}'. "
            f"{what.capitalize()} values for sink connectors need to be integers."
        ) from None


def offsets_message(*, is_known: bool, is_reset: bool) -> Json:
    """Return the answer to a change of offsets; `is_known` if the connector has agreed to it."""
    what = "reset" if is_reset else "altered"
    if is_known:
        return {"message": f"The offsets for this connector have been {what} successfully"}
    return {"message": _EXTERNAL.format(what=what)}
