"""Arguments of several commands: names of topics and groups, partitions, settings.

Shell completion requests names from the cluster with a timeout of 1 s. Errors are ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from odradek.cli.options import connected

if TYPE_CHECKING:
    from odradek.client.cluster import Cluster
    from odradek.model.topic_partition import TopicPartition

T = TypeVar("T")

_COMPLETION_TIMEOUT_MS = 1_000


def completing(
    names: Callable[[Cluster], Iterable[str]],
) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """Return a function that completes names in the cluster.

    If the cluster does not respond, the function returns no names.
    """

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        from odradek.client.errors import ClientError

        try:
            with ctx.scope(cleanup=False), connected(_COMPLETION_TIMEOUT_MS) as cluster:
                return [name for name in names(cluster) if name.startswith(incomplete)]
        except (ClientError, click.ClickException):
            return []

    return complete


def _topics(cluster: Cluster) -> Iterable[str]:
    return sorted(cluster.refresh().topics)


def _groups(cluster: Cluster) -> Iterable[str]:
    from odradek.client.admin.groups import list_groups

    return [group.id for group in list_groups(cluster)]


complete_topics = completing(_topics)
complete_groups = completing(_groups)


def topic_argument(**attributes: Any) -> Callable[[Any], Any]:
    """Return the decorator of the argument TOPIC. With `nargs=-1` it accepts several topics."""
    name = "topics" if attributes.get("nargs") == -1 else "topic"
    metavar = "TOPIC…" if name == "topics" else "TOPIC"
    if name == "topics" and not attributes.get("required"):
        metavar = f"[{metavar}]"
    return click.argument(name, metavar=metavar, shell_complete=complete_topics, **attributes)


def group_argument(**attributes: Any) -> Callable[[Any], Any]:
    """Return the decorator of the argument GROUP. With `nargs=-1` it accepts several groups."""
    name = "groups" if attributes.get("nargs") == -1 else "group_id"
    metavar = "GROUP…" if name == "groups" else "GROUP"
    return click.argument(name, metavar=metavar, shell_complete=complete_groups, **attributes)


def topics_option(help_text: str = "Only this topic; repeatable.") -> Callable[[Any], Any]:
    """Return the decorator of the option --topic, which may be given several times."""
    return click.option(
        "--topic",
        "-t",
        "topics",
        multiple=True,
        metavar="TOPIC",
        shell_complete=complete_topics,
        help=help_text,
    )


def count_option(help_text: str, default: int | None = None) -> Callable[[Any], Any]:
    """Return the decorator of the option --count. Without a default there is no limit."""
    return click.option(
        "--count",
        "-n",
        type=click.IntRange(1),
        metavar="N",
        default=default,
        show_default=default is not None,
        help=help_text,
    )


def partitions_option(default: str) -> Callable[[Any], Any]:
    """Return the decorator of the option --topic, for `select_partitions`.

    `default` says what is selected without the option.
    """
    return click.option(
        "--topic",
        "-t",
        "topics",
        multiple=True,
        metavar="TOPIC[:0,2-4]",
        shell_complete=complete_topics,
        help=f"Topic or partitions; repeatable.  [default: {default}]",
    )


def parsed(parse: Callable[[str], T], text: str) -> T:
    """Parse a word of the command line with a function that raises ValueError.

    Raises:
        UsageError: the word is malformed.
    """
    try:
        return parse(text)
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def parse_pairs(pairs: Sequence[str]) -> dict[str, str]:
    """Parse `name=value` words into a dictionary.

    Raises:
        UsageError: a word has no `=`, or a name is given twice.
    """
    found: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise click.UsageError(f"{pair!r}: write NAME=VALUE")
        if name in found:
            raise click.UsageError(f"{name} is given twice")
        found[name] = value
    return found


def parse_numbers(text: str) -> list[int]:
    """Parse numbers and ranges of numbers. The text `0,2-4` means 0, 2, 3, 4.

    Raises:
        UsageError: the text does not have this form.
    """
    from odradek.operations import partitions

    return parsed(partitions.parse_numbers, text)


def select_partitions(
    cluster: Cluster, topics: Iterable[str], only: Sequence[int] | None = None
) -> list[TopicPartition]:
    """Return the partitions of topics. `topic:0,2` or `only` limits the result to these partitions.

    Raises:
        NoSuchTopicError: there is no such topic or partition.
        UsageError: a word is malformed.
    """
    from odradek.operations import partitions

    try:
        return partitions.select_partitions(cluster, topics, only)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
