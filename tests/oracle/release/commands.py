"""The options of Apache Kafka's commands, and where Odradek's command has the same.

`COUNTERPARTS` has a block for each command: its name, and below it lines of options and the command
of `odradek` that does this, with its option, if it is one. `-` means that there is none. The
commands of `compat.verifiable` and the like are not commands of `odradek`.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import click
from compat.lab import java
from compat.lab.maven import next_jars

from odradek.cli.main import root

TOOLS = {
    "acls": "AclCommand",
    "broker-api-versions": "BrokerApiVersionsCommand",
    "client-metrics": "ClientMetricsCommand",
    "cluster": "ClusterTool",
    "configs": "ConfigCommand",
    "console-consumer": "consumer.ConsoleConsumer",
    "console-producer": "ConsoleProducer",
    "console-share-consumer": "consumer.ConsoleShareConsumer",
    "consumer-groups": "consumer.group.ConsumerGroupCommand",
    "consumer-perf-test": "ConsumerPerformance",
    "delegation-tokens": "DelegationTokenCommand",
    "delete-records": "DeleteRecordsCommand",
    "dump-log": "DumpLogSegments",
    "features": "FeatureCommand",
    "get-offsets": "GetOffsetShell",
    "groups": "GroupsCommand",
    "jmx": "JmxTool",
    "leader-election": "LeaderElectionCommand",
    "log-dirs": "LogDirsCommand",
    "metadata-quorum": "MetadataQuorumCommand",
    "producer-perf-test": "ProducerPerformance",
    "reassign-partitions": "reassign.ReassignPartitionsCommand",
    "replica-verification": "ReplicaVerificationTool",
    "share-consumer-perf-test": "ShareConsumerPerformance",
    "share-groups": "consumer.group.ShareGroupCommand",
    "storage": "kafka.tools.StorageTool",
    "streams-application-reset": "StreamsResetter",
    "streams-groups": "streams.StreamsGroupCommand",
    "topics": "TopicCommand",
    "transactions": "TransactionsCommand",
}
"""The class of each command, in the package of tools where no package is given. The programs that
start nodes and workers, and those of system tests, are left out."""
SUBCOMMANDS = {
    "cluster": "cluster-id unregister unregister-controller list-endpoints api-versions",
    "features": "describe upgrade downgrade disable version-mapping feature-dependencies",
    "metadata-quorum": "describe add-controller remove-controller",
    "storage": "info format version-mapping feature-dependencies random-uuid",
    "transactions": "list describe-producers abort describe find-hanging forceTerminateTransaction",
}
OF_ALL = {"--help", "--version", "--bootstrap-server", "--command-config", "--timeout"}
"""Options that mean the same in all commands of both."""

COUNTERPARTS = """
acls
    --add --allow-principal --operation --topic --group --cluster --transactional-id: acl add
    --delegation-token --user-principal --resource-pattern-type: acl add
    --deny-principal: acl add --deny
    --allow-host --deny-host: acl add --host
    --list: acl list
    --principal: acl list --principal
    --remove: acl remove
    --force: acl remove --yes
    --producer --consumer --idempotent --bootstrap-controller: -
broker-api-versions
client-metrics
    --list --describe: config describe
    --alter --name --metrics --interval --match: config set
    --delete: config delete
    --generate-name: -
cluster
cluster cluster-id
    --bootstrap-controller --config: -
cluster list-endpoints
    --bootstrap-controller --config --include-fenced-brokers: -
cluster api-versions
    --bootstrap-controller --config: -
cluster unregister
    --id: cluster remove
    --bootstrap-controller --config: -
cluster unregister-controller
    --id: cluster unregister-controller
    --bootstrap-controller --config: -
configs
    --describe --entity-type --entity-name --topic --broker --broker-logger --group: config describe
    --client-metrics --broker-defaults --entity-default: config describe
    --all: config describe --all
    --alter --add-config: config set
    --delete-config: config delete
    --user: quota set --user
    --user-defaults: quota set --user-default
    --client: quota set --client-id
    --client-defaults: quota set --client-id-default
    --ip: quota set --ip
    --ip-defaults: quota set --ip-default
    --add-config-file --bootstrap-controller: -
console-consumer
    --topic: consume
    --from-beginning --offset: consume --from
    --partition: consume --partition
    --group: consume --group
    --max-messages: consume --count
    --isolation-level: consume --isolation
    --formatter-property: consume --format
    --include --timeout-ms --skip-message-on-error --enable-systest-events: -
    --formatter --formatter-config --property --key-deserializer --value-deserializer: -
    --consumer-property --consumer.config --command-property: -
console-producer
    --topic: produce
    --reader-property: produce --key-separator
    --batch-size: produce --batch-size
    --compression-codec: produce --compression
    --request-required-acks: produce --acks
    --line-reader --reader-config --property: -
    --max-block-ms --max-memory-bytes --max-partition-memory-bytes --message-send-max-retries: -
    --metadata-expiry-ms --request-timeout-ms --retry-backoff-ms --socket-buffer-size --sync: -
    --producer-property --producer.config --command-property: -
console-share-consumer
    --topic --group: queue work
    --max-messages: queue work --count
    --timeout-ms: queue work --idle
    --formatter-property: queue work --format
    --reject: queue work --reject-on
    --release --reject-message-on-error --enable-systest-events: -
    --formatter --formatter-config --property --key-deserializer --value-deserializer: -
    --consumer-property --consumer-config --command-property: -
consumer-groups
    --list: group list
    --state: group list --state
    --type: group list --type
    --describe --group --offsets --verbose: group describe
    --members: group describe --members
    --delete: group delete
    --reset-offsets --dry-run: group reset-offsets
    --execute: group reset-offsets --execute
    --export: group reset-offsets --json
    --from-file: group reset-offsets --file
    --shift-by --to-current: group reset-offsets --shift
    --to-datetime --to-earliest --to-latest --to-offset --by-duration: group reset-offsets --to
    --topic: group reset-offsets --topic
    --all-groups --all-topics --delete-offsets --validate-regex: -
consumer-perf-test
    --topic: bench --topic
    --include --date-format --fetch-size --from-latest --group --hide-header --messages: -
    --num-records --print-metrics --reporting-interval --show-detailed-stats: -
    --socket-buffer-size --consumer.config --command-property: -
delegation-tokens
    --create: token create
    --owner-principal: token create --owner
    --renewer-principal: token create --renewer
    --max-life-time-period: token create --lifetime
    --describe: token list
    --hmac: token renew
    --renew: token renew
    --renew-time-period: token renew --for
    --expire: token expire
    --expiry-time-period: token expire --after
delete-records
    --offset-json-file: topic delete-records --before
dump-log
    --files --deep-iteration --cluster-metadata-decoder --offsets-decoder: log dump
    --transaction-log-decoder --share-group-state-decoder: log dump
    --print-data-log: log dump --records
    --index-sanity-check --verify-index-only: log verify
    --skip-record-metadata --max-message-size --max-bytes: -
    --key-decoder-class --value-decoder-class --remote-log-metadata-decoder: -
features
features describe
    --node-id: -
features upgrade
    --feature: cluster feature
    --dry-run: cluster feature --dry-run
    --release-version --metadata: -
features downgrade
    --feature: cluster feature --lower
    --dry-run: cluster feature --dry-run
    --release-version --metadata --unsafe: -
features disable
    --feature: cluster feature --lower
    --dry-run: cluster feature --dry-run
    --unsafe: -
features version-mapping
    --release-version: -
features feature-dependencies
    --feature: -
features
    --bootstrap-controller: -
get-offsets
    --topic --topic-partitions --partitions: topic offsets
    --time: topic offsets --at
    --exclude-internal-topics: -
groups
    --list: group list
    --group-type --consumer --share --streams: group list --type
    --protocol: -
jmx
    --attributes --date-format --jmx-auth-prop --jmx-ssl-enable --jmx-url --object-name --one-time: -
    --report-format --reporting-interval --wait: -
leader-election
    --all-topic-partitions: cluster rebalance
    --election-type --partition --topic --path-to-json-file --admin.config: -
log-dirs
    --describe: cluster describe
    --topic-list: topic describe
    --broker-list: -
metadata-quorum
    --bootstrap-controller: -
metadata-quorum describe
    --status --replication --human-readable: cluster describe
    --bootstrap-controller: -
metadata-quorum add-controller
    --dry-run --bootstrap-controller: -
metadata-quorum remove-controller
    --controller-id --controller-directory-id --dry-run --unregister --bootstrap-controller: -
producer-perf-test
    --topic: bench --topic
    --record-size: bench --size
    --num-records --throughput --key-distribution --payload-delimiter --payload-file --payload-monotonic: -
    --print-metrics --producer-props --producer.config --command-property --random-seed: -
    --record-key-range --reporting-interval --transaction-duration-ms --transactional-id: -
    --warmup-records: -
reassign-partitions
    --generate: cluster drain --dry-run
    --execute: cluster drain
    --cancel: cluster drain --cancel
    --list --verify --broker-list --topics-to-move-json-file --reassignment-json-file: -
    --additional --disable-rack-aware --disallow-replication-factor-change --preserve-throttles: -
    --replica-alter-log-dirs-throttle --throttle --bootstrap-controller: -
replica-verification
    --broker-list --fetch-size --max-wait-ms --report-interval-ms --time --topics-include: -
share-consumer-perf-test
    --topic --date-format --fetch-size --group --hide-header --messages --num-records: -
    --print-metrics --reporting-interval --show-consumer-stats --show-detailed-stats: -
    --socket-buffer-size --threads --consumer.config --command-property: -
share-groups
    --list: queue list
    --state: queue list
    --describe --group --offsets --verbose: queue describe
    --members: queue describe --members
    --delete: queue delete
    --delete-offsets: queue delete --topic
    --reset-offsets --dry-run: queue reset
    --execute: queue reset --execute
    --export: queue reset --json
    --from-file: queue reset --file
    --to-current: queue reset --to-current
    --to-datetime --to-earliest --to-latest --to-offset: queue reset --to
    --topic: queue reset --topic
    --all-groups --all-topics: -
storage
storage info
    --config: doctor --config
storage format
    --config: format --config
    --cluster-id: format --cluster-id
    --add-scram: format --add-scram
    --feature: format --feature
    --ignore-formatted: format --ignore-formatted
    --initial-controllers: format --initial-controllers
    --no-initial-controllers: format --no-initial-controllers
    --release-version: format --release-version
    --standalone: format --standalone
storage version-mapping
    --release-version: -
storage feature-dependencies
    --feature: -
storage random-uuid
streams-application-reset
    --application-id --input-topics --internal-topics --dry-run: streams reset
    --force --config-file --from-file --intermediate-topics --shift-by --by-duration: -
    --to-datetime --to-earliest --to-latest --to-offset: -
streams-groups
    --list: group list
    --state: group list --state
    --describe --group --offsets --verbose: group describe
    --members: group describe --members
    --topology: streams describe --topology
    --delete: group delete
    --reset-offsets --dry-run: group reset-offsets
    --execute: group reset-offsets --execute
    --export: group reset-offsets --json
    --from-file: group reset-offsets --file
    --shift-by --to-current: group reset-offsets --shift
    --to-datetime --to-earliest --to-latest --to-offset --by-duration: group reset-offsets --to
    --input-topic: group reset-offsets --topic
    --all-groups --all-input-topics --delete-offsets: -
    --delete-all-internal-topics --delete-internal-topic: -
topics
    --list: topic list
    --exclude-internal: topic list --internal
    --describe --topic: topic describe
    --create: topic create
    --partitions: topic create --partitions
    --replication-factor: topic create --replication-factor
    --replica-assignment: topic create --assignment
    --config: topic create --config
    --if-not-exists: topic create --if-not-exists
    --alter: topic alter
    --delete: topic delete
    --if-exists: topic delete --if-exists
    --delete-config: config delete
    --under-replicated-partitions --unavailable-partitions: cluster status
    --at-min-isr-partitions --under-min-isr-partitions --topics-with-overrides --topic-id: -
    --partition-size-limit-per-response: -
transactions
transactions list
    --duration-filter: transaction list --running-longer-than
    --transactional-id-pattern: transaction list --id-pattern
transactions describe-producers
    --broker-id --partition --topic: -
transactions abort
    --topic --partition --start-offset: transaction abort
    --coordinator-epoch --producer-epoch --producer-id: -
transactions describe
    --transactional-id: transaction describe
transactions find-hanging
    --max-transaction-timeout: transaction find-hanging --older-than
    --broker-id --partition --topic: -
transactions forceTerminateTransaction
    --transactional: -
"""
_OPTION = re.compile(r"(?m)^\s*(?:-\w(?: [\w-]+)?, )?(?:\* )?(--[a-z0-9][a-z0-9.-]*)")


def read_help() -> list[str]:
    """Return the options of all commands of Apache Kafka, as `COMMAND [SUBCOMMAND] OPTION`.

    Raises:
        Missing: Java or Maven is not installed.
    """
    found = set()
    for tool, name in TOOLS.items():
        for words in ((), *((each,) for each in SUBCOMMANDS.get(tool, "").split())):
            text = _said(name, words)
            found |= {" ".join((tool, *words, each)) for each in _OPTION.findall(text)}
    return sorted(found)


def _said(name: str, words: tuple[str, ...]) -> str:
    main_class = name if name.startswith("kafka.") else f"org.apache.kafka.tools.{name}"
    command = java.command(main_class, next_jars(), options=["-XX:TieredStopAtLevel=1"])
    done = subprocess.run([*command, *words, "--help"], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def counterparts() -> dict[str, str]:
    """Return the words of `COUNTERPARTS` by `COMMAND [SUBCOMMAND] OPTION`."""
    found: dict[str, str] = {}
    command = ""
    for line in COUNTERPARTS.strip().splitlines():
        if not line.startswith(" "):
            command = line
            continue
        options, words = line.split(":")
        for option in options.split():
            assert found.setdefault(f"{command} {option}", words.strip()) == words.strip()
    return found


def our_options() -> set[str]:
    """Return the commands of `odradek`, and each with each of its options."""
    return set(_walk(root, ()))


def _walk(command: click.Command, words: tuple[str, ...]) -> Iterator[str]:
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            each = command.get_command(context, name)
            assert each is not None
            yield from _walk(each, (*words, name))
        return
    yield " ".join(words)
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            yield from (" ".join((*words, each)) for each in parameter.opts)


def recorded(path: Path) -> set[str]:
    """Return the recorded options, without those that all commands have."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return {line for line in lines if line.rsplit(" ", 1)[-1] not in OF_ALL}
