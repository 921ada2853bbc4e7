"""`odradek config`: describe, set and delete settings."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

import click

from odradek.cli.arguments import complete_groups, complete_topics, completing, parse_pairs
from odradek.cli.options import cluster_options, connected, json_option
from odradek.cli.output import end_with_errors, note, print_json, styled
from odradek.client.admin.configs import (
    Change,
    ConfigEntry,
    Resource,
    alter_configs,
    describe_configs,
)
from odradek.client.cluster import Cluster
from odradek.client.errors import BrokerError, ClientError
from odradek.model.config_resource import Operation, ResourceType, Source
from odradek.operations.settings import advice, known_settings, unknown_names
from odradek.operations.suggestions import did_you_mean
from odradek.operations.texts import plural

_KINDS = {
    "topic": ResourceType.TOPIC,
    "broker": ResourceType.BROKER,
    "group": ResourceType.GROUP,
    "logger": ResourceType.BROKER_LOGGER,
    "client-metrics": ResourceType.CLIENT_METRICS,
}
_DEFAULT_OF_ALL = "default"
_TEXT_WIDTH = 78
_NAME_WIDTH_MAX = 40
_SOURCES = {
    Source.DEFAULT: "default",
    Source.STATIC_BROKER: "at start",
    Source.DYNAMIC_BROKER: "this broker",
    Source.DYNAMIC_DEFAULT_BROKER: "all brokers",
    Source.DYNAMIC_BROKER_LOGGER: "logger",
}


def _complete_name(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    kind = ctx.params.get("kind")
    if kind == "topic":
        return complete_topics(ctx, param, incomplete)
    return complete_groups(ctx, param, incomplete) if kind == "group" else []


def _complete_setting(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    kind, name = ctx.params.get("kind"), ctx.params.get("name")
    if kind is None or name is None:
        return []
    end = "=" if param.name == "pairs" else ""

    def settings(cluster: Cluster) -> list[str]:
        return [entry.name + end for entry in known_settings(cluster, _resource(kind, name))]

    return completing(settings)(ctx, param, incomplete)


_kind_argument = click.argument("kind", type=click.Choice(list(_KINDS)), metavar="KIND")
_name_argument = click.argument("name", shell_complete=_complete_name)


@click.group()
def config() -> None:
    """Show and change settings of topics, brokers, groups and loggers.

    KIND is topic, broker, group, logger or client-metrics. The NAME of a broker or a logger is the
    broker's id. The broker name `default` means all brokers.

    \b
    Examples:
      odradek config describe topic flights
      odradek config set topic flights retention.ms=86400000
      odradek config delete topic flights retention.ms
    """


def _resource(kind: str, name: str) -> Resource:
    resource_type = _KINDS[kind]
    if resource_type in (ResourceType.BROKER, ResourceType.BROKER_LOGGER):
        if resource_type == ResourceType.BROKER and name == _DEFAULT_OF_ALL:
            name = ""
        elif not name.isdigit():
            raise click.UsageError(f"{name!r} is not the id of a broker")
    return Resource(resource_type, name)


def _refuse(resource: Resource, unknown: Sequence[str], known: Iterable[str]) -> None:
    """Reject unknown names.

    Raises:
        ClickException: there are some. The message suggests a name like the first.
    """
    if unknown:
        meant = did_you_mean(unknown[0], known)
        raise click.ClickException(
            f"{resource} has no setting {', '.join(unknown)}. {meant}".strip()
        )


@config.command()
@_kind_argument
@_name_argument
@click.argument("settings", nargs=-1, shell_complete=_complete_setting)
@click.option(
    "--all", "-a", "show_all", is_flag=True, help="Also show settings with default values."
)
@click.option("--documentation", "-d", is_flag=True, help="Show what each setting does.")
@json_option
@cluster_options
def describe(
    kind: str,
    name: str,
    settings: tuple[str, ...],
    show_all: bool,
    documentation: bool,
    as_json: bool,
) -> None:
    """Show settings. Without SETTINGS and --all, show only settings that were set.

    \b
    Examples:
      odradek config describe topic flights --all
      odradek config describe broker 1 log.retention.ms --documentation
    """
    resource = _resource(kind, name)
    with connected() as cluster:
        if resource.type == ResourceType.TOPIC:
            cluster.topic(name)
        result = describe_configs(cluster, [resource], documentation=documentation)[resource]
    if isinstance(result, ClientError):
        raise result
    entries = [e for e in result if (e.name in settings if settings else show_all or e.is_set)]
    if as_json:
        print_json([_as_json(entry) for entry in entries])
    elif documentation:
        _print_documented(entries)
    elif entries:
        _print_lines(entries)
    elif not settings:
        note(f"All settings of {resource} have their default value. --all shows them.")
    known = {entry.name for entry in result}
    _refuse(resource, [each for each in settings if each not in known], known)


def _print_lines(entries: Sequence[ConfigEntry]) -> None:
    """Print settings as in a properties file, each with its source."""
    width = min(_NAME_WIDTH_MAX, max(len(entry.name) for entry in entries))
    for entry in entries:
        source = styled(f"({_source(entry)})", dim=True)
        click.echo(f"{styled(entry.name.ljust(width), bold=True)} = {_value(entry)}  {source}")


def _print_documented(entries: Sequence[ConfigEntry]) -> None:
    for entry in entries:
        click.echo(f"{styled(entry.name, bold=True)} = {_value(entry)}  ({_source(entry)})")
        kind = entry.value_type + (", read-only" if entry.read_only else "")
        text = f"[{kind}] {entry.documentation or ''}"
        click.echo(textwrap.fill(text, _TEXT_WIDTH, initial_indent="  ", subsequent_indent="  "))


def _value(entry: ConfigEntry) -> str:
    if entry.sensitive:
        return "(secret)"
    return "(none)" if entry.value is None else entry.value


def _source(entry: ConfigEntry) -> str:
    return _SOURCES.get(entry.source, entry.source.name.lower().replace("_", " "))


def _as_json(entry: ConfigEntry) -> dict[str, object]:
    value: dict[str, object] = {
        "name": entry.name,
        "value": entry.value,
        "source": entry.source.name,
        "type": entry.value_type,
        "read_only": entry.read_only,
        "sensitive": entry.sensitive,
        "synonyms": [
            {"name": s.name, "value": s.value, "source": s.source.name} for s in entry.synonyms
        ],
    }
    if entry.documentation is not None:
        value["documentation"] = entry.documentation
    return value


@config.command("set")
@_kind_argument
@_name_argument
@click.argument(
    "pairs", metavar="SETTING=VALUE…", nargs=-1, required=True, shell_complete=_complete_setting
)
@click.option("--validate-only", is_flag=True, help="Only check whether the change is possible.")
@click.option("--force", is_flag=True, help="Also set names that the cluster does not know.")
@cluster_options
def set_command(
    kind: str, name: str, pairs: tuple[str, ...], validate_only: bool, force: bool
) -> None:
    """Set settings. If the broker rejects a setting, none is set.

    \b
    Examples:
      odradek config set topic flights retention.ms=3600000 segment.ms=600000
      odradek config set broker default log.retention.ms=86400000
      odradek config set logger 1 odradek.log=DEBUG
    """
    changes = [Change(setting, value) for setting, value in parse_pairs(pairs).items()]
    _alter(_resource(kind, name), changes, validate_only, "Set", force=force)


@config.command()
@_kind_argument
@_name_argument
@click.argument(
    "settings", metavar="SETTING…", nargs=-1, required=True, shell_complete=_complete_setting
)
@click.option("--validate-only", is_flag=True, help="Only check whether the change is possible.")
@cluster_options
def delete(kind: str, name: str, settings: tuple[str, ...], validate_only: bool) -> None:
    """Reset settings to their default.

    \b
    Example:
      odradek config delete topic flights retention.ms
    """
    changes = [Change(each, None, Operation.DELETE) for each in dict.fromkeys(settings)]
    _alter(_resource(kind, name), changes, validate_only, "Reset")


def _alter(
    resource: Resource,
    changes: Sequence[Change],
    validate_only: bool,
    verb: str,
    *,
    force: bool = False,
) -> None:
    with connected() as cluster:
        known = {entry.name: entry for entry in known_settings(cluster, resource)}
        names = [each.name for each in changes]
        if not force:
            _refuse(resource, unknown_names(resource, names, known), known)
        error = alter_configs(cluster, {resource: changes}, validate_only=validate_only)[resource]
    if isinstance(error, BrokerError):
        hint = advice(names, known)
        end_with_errors([BrokerError(error.code, error.message, error.subject, hint)])
    if error is not None:
        end_with_errors([error])
    what = plural(len(changes), "setting")
    click.echo(f"{'Could ' + verb.lower() if validate_only else verb} {what} of {resource}")
