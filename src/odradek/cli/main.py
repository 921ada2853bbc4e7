"""Finds and runs the command, and converts errors to messages and exit codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

import click
from click.exceptions import NoArgsIsHelpError
from click.shell_completion import CompletionItem

import odradek
from odradek.cli.lazy import LazyGroup
from odradek.cli.options import bootstrap_option, command_config_option
from odradek.client.errors import ClientError

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130
EXIT_OUTPUT_CLOSED = 141

COMMANDS = {
    "serve": ("odradek.cli.serve:serve", "Run a node, as `odradek` without a command does."),
    "topic": ("odradek.cli.topic:topic", "List, create, describe, change and delete topics."),
    "produce": ("odradek.cli.produce:produce", "Write records to a topic."),
    "consume": ("odradek.cli.consume:consume", "Read records from topics."),
    "group": ("odradek.cli.group:group", "Show consumer groups, and change their offsets."),
    "queue": (
        "odradek.cli.queue:queue",
        "Work off records with share groups; show and reset them.",
    ),
    "transaction": (
        "odradek.cli.transaction:transaction",
        "List, describe and abort transactions.",
    ),
    "user": ("odradek.cli.user:user", "List, add and remove users with a password (SCRAM)."),
    "token": ("odradek.cli.token:token", "List, create, renew and expire delegation tokens."),
    "acl": ("odradek.cli.acl:acl", "List, add, remove and explain ACLs."),
    "secure": (
        "odradek.cli.secure:secure",
        "Make certificates and settings for a node with TLS, SASL and ACLs.",
    ),
    "config": ("odradek.cli.config:config", "Show and change settings of topics, brokers, groups."),
    "cluster": ("odradek.cli.cluster:cluster", "Run and show clusters, add and remove brokers."),
    "doctor": (
        "odradek.cli.doctor:doctor",
        "Explain why clients cannot reach a node or a cluster.",
    ),
    "quota": ("odradek.cli.quota:quota", "Show and change the quotas of clients."),
    "log": ("odradek.cli.log:log", "Show, check and repair the files of a data directory."),
    "simulate": (
        "odradek.cli.simulate:simulate",
        "Run clusters on simulated time, disks and networks, with faults.",
    ),
    "bench": ("odradek.cli.bench:bench", "Measure the throughput and latency of a running broker."),
    "connect": (
        "odradek.cli.connect:connect",
        "Run connectors, which copy data between Kafka and other systems.",
    ),
    "pipeline": (
        "odradek.cli.pipeline:pipeline",
        "Run pipelines on Spark, and show those that run.",
    ),
    "spark": ("odradek.cli.spark:spark", "Change checkpoints of Spark's streaming queries."),
    "streams": (
        "odradek.cli.streams:streams",
        "Run applications that are written with odradek.streams.",
    ),
    "demo": ("odradek.cli.demo:demo", "Send real data through a broker and Spark."),
    "format": ("odradek.cli.format:format_command", "Prepare the log directories of a new node."),
    "completion": (
        "odradek.cli.completion:completion",
        "Print a completion script for your shell.",
    ),
}


class OutputClosedError(Exception):
    """The reader of stdout has closed it (`odradek consume … | head`)."""


class RootGroup(LazyGroup):
    """The command `odradek`. Arguments without a command are arguments of `serve`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """See `click.Command.parse_args`."""
        own = {name for option in self.get_params(ctx) for name in option.opts}
        first = args[0].partition("=")[0] if args else ""
        is_option_of_serve = first.startswith("-") and first not in own and first[:2] not in own
        if is_option_of_serve or not (args or ctx.resilient_parsing):
            args = ["serve", *args]
        return super().parse_args(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete as `click.Command.shell_complete` does. Complete options of `serve` too."""
        found = super().shell_complete(ctx, incomplete)
        serve = self.get_command(ctx, "serve")
        if serve is None or not incomplete.startswith("-"):
            return found
        own = {item.value for item in found}
        theirs = serve.shell_complete(click.Context(serve, parent=ctx), incomplete)
        return [*found, *(item for item in theirs if item.value not in own)]

    def invoke(self, ctx: click.Context) -> Any:
        """See `click.Command.invoke`."""
        if os.environ.get("NO_COLOR"):
            ctx.color = False
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError as error:
            raise OutputClosedError from error
        return result


def _print_version(context: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    if not wanted or context.resilient_parsing:
        return
    from odradek.records.compiled import COMPILED

    mode = "compiled" if COMPILED else "pure Python"
    click.echo(f"odradek, version {odradek.__version__} ({mode})")
    context.exit()


@click.group(
    cls=RootGroup,
    commands_by_name=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_print_version,
    help="Show the version, and whether the package is compiled, and exit.",
)
@bootstrap_option
@command_config_option
def root() -> None:
    """An event-streaming platform that speaks Apache Kafka's protocol.

    \b
    Start a broker, then send a record from another terminal:
      odradek
      odradek produce greetings hello
      odradek consume greetings

    \b
    The options of `odradek serve` need no command:
      odradek --port 9095 --metrics-port 9404
    """


def run(args: Sequence[str] | None = None) -> int:
    """Run a command line; return the exit code."""
    try:
        code = root.main(args, prog_name="odradek", standalone_mode=False)
    except OutputClosedError:
        # Buffered output has no reader; prevent the interpreter from flushing it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_OUTPUT_CLOSED
    except click.Abort:
        return EXIT_INTERRUPTED
    except NoArgsIsHelpError as error:
        error.show()
        return EXIT_USAGE
    except click.UsageError as error:
        _show_usage_error(error)
        return EXIT_USAGE
    except click.ClickException as error:
        error.show()
        return EXIT_FAILED
    except ClientError as error:
        from odradek.cli.output import print_error

        print_error(error)
        return EXIT_FAILED
    return code if isinstance(code, int) else 0


def _show_usage_error(error: click.UsageError) -> None:
    """Print the sentence first, and then the usage, which click would print first."""
    click.echo(f"Error: {error.format_message()}", err=True)
    if error.ctx is not None:
        click.echo(error.ctx.get_usage(), err=True)
        click.echo(f"Try '{error.ctx.command_path} --help' for help.", err=True)


def main() -> None:
    """Run the command line of this process and exit."""
    sys.exit(run())
