"""`odradek cluster status`: whether the cluster is healthy, and if not, why and what to do."""

from __future__ import annotations

from collections.abc import Sequence

import click

from odradek.cli.options import cluster_options, connected, json_option
from odradek.cli.output import Column, number, print_json, print_table, styled
from odradek.cli.problems import print_problems
from odradek.cli.values import now_ms
from odradek.client.admin.cluster import (
    LogDir,
    Quorum,
)
from odradek.client.errors import ClientError
from odradek.operations.cluster_health import Facts, diagnose, gather, is_partly_hidden
from odradek.operations.problems import Problem, Severity, problems_json
from odradek.operations.texts import plural, size_text

TIMEOUT_MS = 10_000
"""How long to wait for the controllers, if `--timeout` is not given."""
_VERDICTS = {
    Severity.NOTE: ("The cluster is healthy.", "green"),
    Severity.DEGRADED: ("The cluster serves all requests, but it is degraded.", "yellow"),
    Severity.BROKEN: ("The cluster does not serve all requests.", "red"),
}


@click.command()
@json_option
@cluster_options
def status(as_json: bool) -> int:
    """Show whether the cluster is healthy, and if not, why and what to do.

    The exit code is 0 if the cluster is healthy, and 1 if not.

    \b
    Examples:
      odradek cluster status
      odradek cluster status --json
    """
    with connected(TIMEOUT_MS) as client:
        facts = gather(client, now_ms())
    problems = diagnose(facts)
    severity = max((each.severity for each in problems), default=Severity.NOTE)
    if as_json:
        print_json(_as_json(facts, problems, severity))
    else:
        _print(facts, problems, severity)
    return 1 if severity > Severity.NOTE else 0


def _print(facts: Facts, problems: Sequence[Problem], severity: Severity) -> None:
    verdict, colour = _VERDICTS[severity]
    if severity is Severity.NOTE and is_partly_hidden(facts):
        verdict, colour = "No problem was found in what you may see.", "cyan"
    click.echo(styled(verdict, fg=colour, bold=True))
    print_problems(problems)
    click.echo(f"\n{_summary(facts)}\n")
    _print_brokers(facts)


def _summary(facts: Facts) -> str:
    brokers = plural(len(facts.info.brokers), "broker")
    count = sum(1 for _ in facts.partitions())
    words = [brokers, plural(len(facts.topics), "topic"), plural(count, "partition")]
    if isinstance(facts.quorum, Quorum):
        voters = plural(len(facts.quorum.voters), "controller")
        words.append(f"{voters} (node {facts.quorum.leader_id} is active)")
    return f"Cluster {facts.info.cluster_id}: {', '.join(words)}"


def _print_brokers(facts: Facts) -> None:
    columns = [
        number("Broker"),
        Column("Address"),
        Column("Rack"),
        Column("State"),
        number("Leaders"),
        number("Replicas"),
        number("Not in sync"),
        number("Size"),
        number("Free"),
    ]
    loads = facts.loads()
    rows = []
    for each in facts.info.brokers:
        size, free = _space(facts.log_dirs.get(each.id))
        state = "fenced" if each.fenced else "serves"
        load = loads[each.id]
        counts = (load.leaders, load.replicas, load.missing)
        rows.append([each.id, each.address, each.rack, state, *counts, size, free])
    print_table(columns, rows)


def _space(directories: Sequence[LogDir] | ClientError | None) -> tuple[str | None, str | None]:
    if directories is None or isinstance(directories, ClientError):
        return None, None
    size = sum(sum(each.sizes.values()) for each in directories)
    free = sum(max(0, each.usable_bytes) for each in directories)
    return size_text(size), size_text(free)


def _as_json(facts: Facts, problems: Sequence[Problem], severity: Severity) -> dict[str, object]:
    quorum = facts.quorum
    return {
        "cluster_id": facts.info.cluster_id,
        "state": ("healthy", "degraded", "broken")[severity],
        "problems": problems_json(problems),
        "active_controller": None if isinstance(quorum, ClientError) else quorum.leader_id,
        "controllers": [] if isinstance(quorum, ClientError) else [v.id for v in quorum.voters],
        "brokers": [{"id": each.id, "fenced": each.fenced} for each in facts.info.brokers],
        "topics": len(facts.topics),
        "partitions": sum(1 for _ in facts.partitions()),
        "offline": len(facts.offline()),
        "below_min_in_sync": len(facts.below_minimum()),
        "under_replicated": len(facts.under_replicated()),
        "moving": len(facts.moving),
    }
