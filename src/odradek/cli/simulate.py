"""`odradek simulate`: runs whole clusters on simulated time, disks and networks."""

from __future__ import annotations

import os
import secrets
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import repeat

import click

from odradek.cli.options import json_option
from odradek.cli.output import note, print_json, styled
from odradek.operations.texts import plural
from odradek.sim.campaign import KINDS, Options, Run, run

VIOLATIONS_MAX = 10
STORY_MAX = 120
"""How many lines of a shortened history are printed. The last lines are the interesting ones."""
SEED_BITS = 31


@click.command()
@click.option(
    "--seeds", type=click.IntRange(1), default=20, show_default=True, help="Number of runs."
)
@click.option("--seed", type=int, metavar="SEED", help="Run only this seed.")
@click.option("--first", type=int, metavar="SEED", help="The first seed.  [default: random]")
@click.option(
    "--nodes",
    type=click.IntRange(1, 9),
    default=3,
    show_default=True,
    help="Number of nodes: 1, or 3 to 9.",
)
@click.option(
    "--fault",
    "faults",
    multiple=True,
    type=click.Choice(KINDS),
    help="Only faults of this kind; repeatable. By default all kinds occur; with several nodes, all "
    "but power losses.",
)
@click.option("--once", is_flag=True, help="Do not repeat runs to compare the histories.")
@click.option(
    "--repeat-every",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    metavar="N",
    help="Repeat only the seeds that are divisible by N.",
)
@click.option(
    "--short", is_flag=True, help="Shorter runs, with one to three faults instead of three to six."
)
@click.option(
    "--faults-max",
    type=click.IntRange(0),
    metavar="N",
    help="Only the first N faults of each seed occur.",
)
@click.option(
    "--processes",
    type=click.IntRange(1),
    metavar="N",
    help="Number of processes.  [default: one for each core]",
)
@json_option
def simulate(
    seeds: int,
    seed: int | None,
    first: int | None,
    nodes: int,
    faults: tuple[str, ...],
    once: bool,
    repeat_every: int,
    short: bool,
    faults_max: int | None,
    processes: int | None,
    as_json: bool,
) -> int:
    """Run real nodes and clients on simulated time, disks and networks, with faults.

    A seed determines everything that happens. Producers, transactions and consumer groups run while
    nodes are killed, stopped and cut off from each other. At the end the logs are compared with the
    responses that the clients received: no acknowledged record may be lost, duplicated or out of
    order, no aborted record may be visible, and all replicas must be equal. If a run violates this,
    the command prints the seed and a shortened history, and has the exit code 1.

    \b
    Examples:
      odradek simulate --seeds 2
      odradek simulate --seed 42 --nodes 1 --fault power --fault torn
      odradek simulate --seeds 1 --nodes 5 --fault "cut off" --once
      odradek simulate --seeds 300 --short --repeat-every 10
    """
    options = Options(nodes, faults, 0 if once else repeat_every, short, faults_max)
    _check(options)
    if seed is not None:
        first, seeds = seed, 1
    if first is None:
        first = secrets.randbits(SEED_BITS)
    note(f"{plural(seeds, 'seed')} from {first} on, {plural(nodes, 'node')}")
    started = time.monotonic()
    counts: Counter[str] = Counter()
    repeated = 0
    failed: list[Run] = []
    for done, each in enumerate(_runs(range(first, first + seeds), options, processes), 1):
        counts.update(each.counts)
        repeated += each.was_repeated
        if each.violations:
            failed.append(each)
            if not as_json:
                _print_failure(each, options)
        _show_progress(done, seeds, len(failed))
    if as_json:
        print_json(_as_json(first, seeds, options, counts, failed))
        return 1 if failed else 0
    for what, number in sorted(counts.items()):
        click.echo(f"{number:9,} {what}")
    often = "" if once else " twice" if repeated == seeds else f", {repeated} of them twice,"
    click.echo(
        f"{plural(seeds, 'seed')}{often} in {time.monotonic() - started:.0f} s: {len(failed)} failed"
    )
    return 1 if failed else 0


def _check(options: Options) -> None:
    if options.nodes == 2:
        raise click.UsageError(
            "--nodes: 2 nodes have no majority without each other; choose 1 or 3"
        )
    kinds = options.kinds()
    wrong = [each for each in options.faults if each not in kinds]
    if wrong:
        raise click.UsageError(
            f"--fault {wrong[0]!r} does not occur with {plural(options.nodes, 'node')}; choose "
            f"{', '.join(map(repr, kinds))}"
        )


def _runs(seeds: range, options: Options, processes: int | None) -> Iterator[Run]:
    """Yield the results in the order of the seeds."""
    from concurrent.futures import ProcessPoolExecutor

    workers = min(len(seeds), processes or os.cpu_count() or 1)
    if workers == 1:
        yield from map(run, seeds, repeat(options))
        return
    with ProcessPoolExecutor(workers) as pool:
        yield from pool.map(run, seeds, repeat(options))


def _show_progress(done: int, total: int, failed: int) -> None:
    """Show the progress on a terminal; elsewhere print a line after each 50 runs."""
    if sys.stderr.isatty():
        end = "\r\x1b[K" if done == total else ""
        print(
            f"\r{done} of {total}, {failed} failed\x1b[K{end}", end="", file=sys.stderr, flush=True
        )
    elif done % 50 == 0:
        note(f"{done} done, {failed} failed")


def repetition(run: Run, options: Options) -> str:
    """Return the command that repeats a run, with the faults that are needed."""
    words = ["odradek simulate --seed", str(run.seed), "--nodes", str(options.nodes)]
    words += [f"--fault {each!r}" for each in options.faults]
    if options.is_short:
        words.append("--short")
    faults_max = options.faults_max if run.faults_max is None else run.faults_max
    if faults_max is not None:
        words.append(f"--faults-max {faults_max}")
    return " ".join(words)


def _print_failure(failure: Run, options: Options) -> None:
    click.echo(styled(f"\nSeed {failure.seed} failed.", fg="red", bold=True))
    for each in failure.violations[:VIOLATIONS_MAX]:
        click.echo(f"  {each}")
    if len(failure.violations) > VIOLATIONS_MAX:
        click.echo(f"  and {len(failure.violations) - VIOLATIONS_MAX} more")
    click.echo(styled("What happened (shortened)", bold=True))
    if len(failure.story) > STORY_MAX:
        click.echo(f"  … {len(failure.story) - STORY_MAX} lines before")
    for line in failure.story[-STORY_MAX:]:
        click.echo(f"  {line}")
    click.echo(f"To repeat it: {repetition(failure, options)}\n")


def _as_json(
    first: int, seeds: int, options: Options, counts: Counter[str], failed: Sequence[Run]
) -> dict[str, object]:
    return {
        "first": first,
        "seeds": seeds,
        "nodes": options.nodes,
        "faults": list(options.chosen()),
        "events": dict(sorted(counts.items())),
        "failed": [
            {
                "seed": each.seed,
                "violations": list(each.violations),
                "story": list(each.story),
                "repeat": repetition(each, options),
            }
            for each in failed
        ],
    }
