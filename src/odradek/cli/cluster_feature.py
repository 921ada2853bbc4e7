"""`odradek cluster feature`: shows and changes the levels of the cluster's features (KIP-584)."""

from __future__ import annotations

import click

from odradek.cli.arguments import parse_pairs
from odradek.cli.options import cluster_options, connected, json_option
from odradek.cli.output import Column, number, print_json, print_table
from odradek.client.admin.cluster import features
from odradek.client.admin.features import UpgradeType, update_features
from odradek.client.cluster import Cluster
from odradek.operations.suggestions import did_you_mean


@click.command()
@click.argument("levels", metavar="[NAME=LEVEL]…", nargs=-1)
@click.option("--lower", is_flag=True, help="Allow a lower level, if no data would be lost.")
@click.option("--dry-run", is_flag=True, help="Let the controller check the change only.")
@json_option
@cluster_options
def feature(levels: tuple[str, ...], lower: bool, dry_run: bool, as_json: bool) -> None:
    """Show the levels of the cluster's features, or change them.

    Every node must support the new level. All changes are made, or none.

    \b
    Examples:
      odradek cluster feature
      odradek cluster feature share.version=2
      odradek cluster feature share.version=0 --lower --dry-run
    """
    wanted = {name: _level(name, text) for name, text in parse_pairs(levels).items()}
    if not wanted and (lower or dry_run):
        raise click.UsageError("--lower and --dry-run need NAME=LEVEL")
    with connected() as cluster:
        before = _levels(cluster)
        for name in wanted:
            if name not in before:
                meant = did_you_mean(name, before)
                raise click.UsageError(f"There is no feature {name!r}. {meant}".rstrip())
        if wanted:
            kind = UpgradeType.SAFE_DOWNGRADE if lower else UpgradeType.UPGRADE
            update_features(cluster, wanted, kind, validate_only=dry_run)
    if as_json:
        print_json(
            [
                {"name": name, "level": wanted.get(name, level), "supported": supported}
                for name, (level, supported) in before.items()
                if not wanted or name in wanted
            ]
        )
    elif wanted:
        done = "Would change" if dry_run else "Changed"
        for name, level in wanted.items():
            click.echo(f"{done} {name} from {before[name][0] or 0} to {level}")
    else:
        print_table(
            [Column("Feature"), number("Level"), Column("Supported")],
            ([name, level, f"{low}-{high}"] for name, (level, (low, high)) in before.items()),
        )


def _level(name: str, text: str) -> int:
    if not text.isdecimal():
        raise click.UsageError(f"The level of {name} must be a number: {text!r}")
    return int(text)


def _levels(cluster: Cluster) -> dict[str, tuple[int | None, tuple[int, int]]]:
    """Return the level of each feature, and the levels that the asked broker supports."""
    return {each.name: (each.level, each.supported) for each in features(cluster.any())}
