"""Formats the data directories of a node, and checks which cluster and node they belong to.

Formatting writes these files, which have Apache Kafka's formats:

- `meta.properties` in each directory: the ids of the cluster, the node and the directory.
- `bootstrap.checkpoint` in each directory: the first records of the metadata log, where Apache Kafka
  before 4.4 looks for them.
- The zero checkpoint, a snapshot in the directory of the metadata log: the first voters and, on
  controllers, the first records again, where Apache Kafka 4.4 looks for them. It has no voters if
  controller.quorum.voters contains them (kraft.version 0). A node that joins a quorum has no such
  file.

`meta.properties` is written last. Therefore a directory without this file is not formatted, even if
a crash has left other files in the directory.

A node formats empty directories when it starts, if its configuration names no other controller, or
if the caller knows the id of the cluster. The start fails if a directory is formatted for
another cluster or node, or if a directory contains partitions but no `meta.properties`. A directory
that a release before 3.7 has formatted gets an id.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from odradek.broker.raft.control import KRAFT_VERSION_STATIC, voters_messages
from odradek.broker.raft.metadata_log import METADATA_PARTITION
from odradek.broker.raft.snapshots import (
    STARTING,
    read_snapshot,
    snapshot_batches,
    write_snapshot,
)
from odradek.config.broker_config import BrokerConfig
from odradek.config.properties import parse_properties
from odradek.core.metadata.errors import MetadataFormatError
from odradek.core.metadata.record import decode_record, encode_record
from odradek.core.metadata.registrations import Endpoint as AdvertisedEndpoint
from odradek.core.metadata.releases import default_levels
from odradek.core.metadata.versions import (
    KRAFT_VERSION,
    LEVEL_SCRAM,
    METADATA_VERSION,
    SUPPORTED_FEATURES,
)
from odradek.core.raft.voters import ReplicaKey, Voter, VoterEndpoint, VoterSet
from odradek.env.file_system import (
    DirectoryEntry,
    FileSystem,
    ensure_directory,
    read_file,
    replace_file,
)
from odradek.env.randomness import RandomBytes
from odradek.log.errors import DamagedFile
from odradek.log.names import LOG, META_PROPERTIES, parse_directory
from odradek.model import uuids
from odradek.node.meta_properties import VERSION, MetaProperties, decode
from odradek.wire.generated.feature_level_record import FeatureLevelRecord
from odradek.wire.primitives import Message

BOOTSTRAP = "bootstrap.checkpoint"

DEFAULT_LEVELS: Mapping[str, int] = default_levels()
"""Feature levels of a new cluster, as in Apache Kafka 4.3."""

FALLBACK_ENDPOINT = VoterEndpoint("CONTROLLER", "localhost", 9093)
"""The controller endpoint in the voters record of a node that has no controller listener."""


class FormatError(Exception):
    """The directories cannot be used. The message tells the user what to do."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The cluster and the node that the directories belong to."""

    cluster_id: str
    node_id: int
    directory_ids: Mapping[str, bytes]
    """The id of each log directory, by its path."""
    bootstrap: tuple[Message, ...]
    """The first records of the metadata log, used if the log is empty."""
    is_new: bool
    """Whether this start formatted the directories."""
    failed: Mapping[str, str] = field(default_factory=dict)
    """Why a log directory cannot be used, by its path."""


class _Found(NamedTuple):
    """What the directories hold; a path that is in neither mapping is not formatted."""

    known: Mapping[str, MetaProperties]
    failed: Mapping[str, str]


class Formatter:
    """Reads and formats the directories of one node."""

    def __init__(
        self,
        config: BrokerConfig,
        file_system: FileSystem,
        random_bytes: RandomBytes,
        now_ms: int,
        levels: Mapping[str, int] = DEFAULT_LEVELS,
        credentials: Sequence[Message] = (),
    ) -> None:
        """`levels` are the feature levels of a new cluster, by feature name.

        `credentials` are the records of its first SCRAM credentials.

        Raises:
            FormatError: the level of metadata.version has no SCRAM credentials.
        """
        self._config = config
        self._file_system = file_system
        self._random_bytes = random_bytes
        self._now_ms = now_ms
        self._levels = {name: level for name, level in levels.items() if name != KRAFT_VERSION}
        if credentials and self._levels[METADATA_VERSION] < LEVEL_SCRAM:
            raise FormatError(
                f"SCRAM credentials need {METADATA_VERSION} {LEVEL_SCRAM} (3.5-IV2) or higher"
            )
        self._kraft_version = levels.get(KRAFT_VERSION, 0 if config.quorum_voters else 1)
        self._credentials = credentials
        self._paths = list(dict.fromkeys((*config.log_dirs, config.metadata_log_dir)))

    def local_voter(self, directory_id: bytes) -> Voter:
        """Return this node's entry in the voters record."""
        return local_voter(self._config, directory_id)

    # -- reading --------------------------------------------------------------------------------

    def read(self) -> Identity | None:
        """Return the identity of the directories; None if none of them is formatted.

        Raises:
            FormatError: the directories contradict each other or the configuration.
        """
        found = self._find()
        return self._identity(found) if found.known else None

    def _find(self) -> _Found:
        """Read `meta.properties` in all directories.

        As in Apache Kafka, a file that cannot be read makes its directory unusable, and the node may
        start without it, unless it is the directory of the metadata log.

        Raises:
            FormatError: the directories contradict each other or the configuration.
        """
        known: dict[str, MetaProperties] = {}
        failed: dict[str, str] = {}
        for path in self._paths:
            name = f"{path}/{META_PROPERTIES}"
            try:
                content = parse_properties(read_file(self._file_system, name))
                known[path] = decode(content)
            except FileNotFoundError:
                continue
            except (OSError, ValueError) as error:
                failed[path] = f"cannot read {name}: {error}"
        for path, problem in failed.items():
            if path == self._config.metadata_log_dir or not known:
                raise FormatError(problem)
        self._check_agreement(known)
        self._check_age(known)
        return _Found(known, failed)

    def _identity(self, found: _Found) -> Identity:
        ids = {path: each.directory_id for path, each in found.known.items()}
        return Identity(
            next(iter(found.known.values())).cluster_id,
            self._config.node_id,
            {path: each for path, each in ids.items() if each is not None},
            tuple(self._read_bootstrap()),
            is_new=False,
            failed=found.failed,
        )

    def _check_agreement(self, known: Mapping[str, MetaProperties]) -> None:
        clusters = {each.cluster_id: path for path, each in known.items()}
        if len(clusters) > 1:
            listed = ", ".join(f"{path} has {value}" for value, path in clusters.items())
            raise FormatError(
                f"the log directories disagree on cluster.id: {listed}; "
                "name only the directories of one node in log.dirs"
            )
        for path, each in known.items():
            if each.node_id != self._config.node_id:
                raise FormatError(
                    f"{path} belongs to node {each.node_id}, but node.id is "
                    f"{self._config.node_id}; set node.id={each.node_id}, or choose another directory"
                )
        for path in known:
            place = f"{path}/{METADATA_PARTITION}"
            if path != self._config.metadata_log_dir and self._entries(place):
                raise FormatError(
                    f"{place} is the metadata log, but metadata.log.dir is "
                    f"{self._config.metadata_log_dir}; set metadata.log.dir={path}"
                )
        ids = [each.directory_id for each in known.values() if each.directory_id is not None]
        if any(map(uuids.is_reserved, ids)):
            raise FormatError(
                "a log directory has a reserved directory.id: remove the line from its "
                f"{META_PROPERTIES}, and the next start chooses an id"
            )
        if len(set(ids)) < len(ids):
            raise FormatError(
                "two log directories have the same directory.id: one is a copy of the other; "
                "remove the copy from log.dirs"
            )

    def _check_age(self, known: Mapping[str, MetaProperties]) -> None:
        """Refuse directories of a cluster that needs ZooKeeper: its topics are only there.

        Apache Kafka would start, and delete the partitions, which its own metadata does not know.
        """
        metadata = f"{self._config.metadata_log_dir}/{METADATA_PARTITION}"
        for path, each in known.items():
            if each.version > 0 or self._entries(metadata):
                continue  # a node that was migrated keeps version 0
            if any(parse_directory(entry.name) is not None for entry in self._entries(path)):
                raise FormatError(
                    f"{path}/{META_PROPERTIES} has version 0, and there is no metadata log: it was "
                    "written before KRaft; migrate the cluster with Apache Kafka 3.9 first"
                )

    def _entries(self, path: str) -> Sequence[DirectoryEntry]:
        try:
            return self._file_system.scan(path)
        except OSError:
            return ()

    def _read_bootstrap(self) -> list[Message]:
        """Return the first records of the metadata log. They are needed only while it is empty.

        As in Apache Kafka, those of the zero checkpoint count, if it has any.
        """
        directory = self._config.metadata_log_dir
        for path in (
            f"{directory}/{METADATA_PARTITION}/{STARTING.name}",
            f"{directory}/{BOOTSTRAP}",
        ):
            try:
                values = read_snapshot(self._file_system, path).values
                if values or path.endswith(BOOTSTRAP):
                    return [decode_record(value) for value in values]
            except FileNotFoundError:
                continue
            except (DamagedFile, MetadataFormatError, OSError) as error:
                raise FormatError(f"cannot read {path}: {error}") from error
        return self._bootstrap_records()

    # -- writing --------------------------------------------------------------------------------

    def ensure(self, cluster_id: str | None = None) -> Identity:
        """Format the empty directories; return the identity of all directories.

        Raises:
            FormatError: the directories cannot be used, or do not belong to `cluster_id`.
        """
        found, is_first = self._find(), self._config.is_first_voter
        if not found.known:
            if cluster_id is None and not is_first:
                raise FormatError(
                    f"{self._paths[0]} is not formatted, and this node joins a cluster: run "
                    "`odradek format` with --cluster-id and the id of the cluster"
                )
            return self.format(cluster_id, standalone=is_first)
        own_id = next(iter(found.known.values())).cluster_id
        if cluster_id is not None and cluster_id != own_id:
            raise FormatError(
                f"{next(iter(found.known))} belongs to cluster {own_id}, not {cluster_id}; "
                "choose another directory, or move this one away"
            )
        identity = self._identity(self._with_ids(found))
        missing = [
            path for path in self._paths if path not in found.known and path not in found.failed
        ]
        made = self._format(missing, own_id, is_first)
        return replace(identity, directory_ids={**identity.directory_ids, **made})

    def _with_ids(self, found: _Found) -> _Found:
        """Choose an id for each directory that an older release has formatted, and write it.

        Raises:
            FormatError: the metadata log is in a directory that cannot be written to.
        """
        known, failed = dict(found.known), dict(found.failed)
        for path, each in found.known.items():
            if each.directory_id is not None:
                continue
            known[path] = each.with_directory_id(self._new_id())
            name = f"{path}/{META_PROPERTIES}"
            try:
                replace_file(self._file_system, name, known[path].encode())
            except OSError as error:
                del known[path]
                failed[path] = f"cannot write directory.id to {name}: {error.strerror or error}"
                if path == self._config.metadata_log_dir or not known:
                    raise FormatError(failed[path]) from error
        return _Found(known, failed)

    def format(
        self,
        cluster_id: str | None = None,
        standalone: bool = True,
        controllers: VoterSet | None = None,
    ) -> Identity:
        """Format all directories. Without `cluster_id`, choose a random cluster id.

        `controllers` are the first voters of the quorum, which may include this node. Without
        `controllers`, `standalone` means that this node is the only voter, if it is a controller
        and unless controller.quorum.voters is set.

        Raises:
            FormatError: a directory is already formatted, or cannot be used.
        """
        identity = self.read()
        if identity is not None:
            path = next(iter(identity.directory_ids))
            raise FormatError(
                f"{path} is formatted already, for cluster {identity.cluster_id}; "
                "move it away to format a new one"
            )
        cluster_id = self._new_cluster_id() if cluster_id is None else _checked(cluster_id)
        ids = self._format(self._paths, cluster_id, standalone, controllers)
        return Identity(
            cluster_id, self._config.node_id, ids, tuple(self._bootstrap_records()), is_new=True
        )

    def _format(
        self,
        paths: list[str],
        cluster_id: str,
        standalone: bool = True,
        controllers: VoterSet | None = None,
    ) -> dict[str, bytes]:
        ids: dict[str, bytes] = {}
        for path in paths:
            self._check_empty(path)
            is_metadata = path == self._config.metadata_log_dir
            ids[path] = self._chosen_id(controllers if is_metadata else None)
            try:
                ensure_directory(self._file_system, path)
                self._write_bootstrap(path)
                voters = controllers
                if voters is None and standalone and self._config.is_controller:
                    voters = VoterSet([self.local_voter(ids[path])])
                if is_metadata:
                    self._write_starting(path, voters)
                self._write_properties(path, cluster_id, ids[path])
            except OSError as error:
                raise FormatError(
                    f"cannot write to {path}: {error.strerror or error}; "
                    "choose another directory with --data or log.dirs"
                ) from error
        return ids

    def _check_empty(self, path: str) -> None:
        """Raise FormatError if a directory is used for something else.

        A directory that contains other directories is in use, even without meta.properties. Plain
        files (a configuration, a log file) are allowed, as in Apache Kafka.
        """
        try:
            entries = self._file_system.scan(path)
        except FileNotFoundError:
            return
        except OSError as error:
            raise FormatError(f"cannot read {path}: {error.strerror or error}") from error
        for entry in entries:
            if not entry.is_directory or self._is_harmless(path, entry.name):
                continue
            if parse_directory(entry.name) is not None:
                raise FormatError(
                    f"{path} holds {entry.name} but no {META_PROPERTIES}, so its cluster and node "
                    f"are unknown; restore {META_PROPERTIES}, or choose another directory"
                )
            raise FormatError(
                f"{path} holds {entry.name}, so it is no node's: {self._advice(path)}"
            )

    def _advice(self, path: str) -> str:
        """Return which directory to choose: that of a node in `path`, if there is one."""
        below = self._directories(path)
        found = [
            each
            for each in (*below, *(inner for each in below for inner in self._directories(each)))
            if self._file_system.status(f"{each}/{META_PROPERTIES}") is not None
        ]
        if len(found) == 1:
            return f"a node's data is in {found[0]}: choose that one with --data or log.dirs"
        return "choose an empty directory with --data or log.dirs"

    def _directories(self, path: str) -> list[str]:
        try:
            return [f"{path}/{e.name}" for e in self._file_system.scan(path) if e.is_directory]
        except OSError:  # the reason for a message is not the message
            return []

    def _is_harmless(self, path: str, name: str) -> bool:
        """Whether a directory may exist before formatting.

        The operating system or an interrupted formatting may have created it.
        """
        if name != str(METADATA_PARTITION):
            return name == "lost+found" or name.startswith(".")
        return not any(each.name.endswith(LOG) for each in self._file_system.scan(f"{path}/{name}"))

    def _write_bootstrap(self, path: str) -> None:
        batches = snapshot_batches(0, 0, (), self._bootstrap_values(), self._now_ms)
        replace_file(self._file_system, f"{path}/{BOOTSTRAP}", b"".join(batches))

    def _bootstrap_values(self) -> list[bytes]:
        level = self._levels[METADATA_VERSION]
        return [encode_record(record, level) for record in self._bootstrap_records()]

    def _bootstrap_records(self) -> list[Message]:
        """Return the first records of the metadata log.

        There is a record for each feature whose level is not 0. metadata.version is the first.
        The credentials follow them.
        """
        others = sorted(name for name in self._levels if name != METADATA_VERSION)
        features = [
            FeatureLevelRecord(name=name, feature_level=self._levels[name])
            for name in (METADATA_VERSION, *others)
            if self._levels[name] > 0
        ]
        return [*features, *self._credentials]

    def _write_starting(self, path: str, voters: VoterSet | None) -> None:
        """Write the zero checkpoint, unless there is nothing to write."""
        is_static = self._kraft_version == KRAFT_VERSION_STATIC
        has_records = self._config.is_controller and (is_static or voters is not None)
        messages = [] if is_static or voters is None else voters_messages(voters)
        if not messages and not has_records:
            return
        directory = f"{path}/{METADATA_PARTITION}"
        ensure_directory(self._file_system, directory)
        values = self._bootstrap_values() if has_records else ()
        batches = snapshot_batches(0, self._now_ms, messages, values, self._now_ms)
        write_snapshot(self._file_system, f"{directory}/{STARTING.name}", batches, directory)

    def _write_properties(self, path: str, cluster_id: str, directory_id: bytes) -> None:
        content = MetaProperties(VERSION, cluster_id, self._config.node_id, directory_id, {})
        replace_file(self._file_system, f"{path}/{META_PROPERTIES}", content.encode())

    def _chosen_id(self, controllers: VoterSet | None) -> bytes:
        """Return the id of a directory: the chosen one, if this node is one of `controllers`."""
        chosen = None if controllers is None else controllers.voters.get(self._config.node_id)
        return self._new_id() if chosen is None else chosen.key.directory_id

    def _new_id(self) -> bytes:
        while True:
            made = uuids.make(self._random_bytes(16))
            if not uuids.is_reserved(made) and not uuids.to_text(made).startswith("-"):
                return made

    def _new_cluster_id(self) -> str:
        return uuids.to_text(self._new_id())


def local_voter(
    config: BrokerConfig, directory_id: bytes, bound: Sequence[AdvertisedEndpoint] = ()
) -> Voter:
    """Return this node's entry in the voters record.

    `bound` are the addresses of the controller that other nodes are told. If they are not known yet,
    a listener on all addresses gets localhost, as in Apache Kafka; the node corrects its entry when
    it has started.
    """
    endpoints = tuple(VoterEndpoint(each.name, each.host, each.port) for each in bound) or tuple(
        VoterEndpoint(
            each.name,
            FALLBACK_ENDPOINT.host if config.needs_own_host(each) else each.host,
            each.port,
        )
        for each in config.advertised_controller_listeners
    )
    low, high = SUPPORTED_FEATURES[KRAFT_VERSION]
    key = ReplicaKey(config.node_id, directory_id)
    return Voter(key, endpoints or (FALLBACK_ENDPOINT,), low, high)


def _checked(cluster_id: str) -> str:
    """Return the cluster id.

    Raises:
        FormatError: Apache Kafka would not accept the cluster id.
    """
    try:
        uuids.from_text(cluster_id)
    except ValueError:
        raise FormatError(
            f"{cluster_id!r} is not a cluster id: a cluster id has 22 characters of URL-safe base64"
        ) from None
    return cluster_id
