"""The typed settings of one node."""

from __future__ import annotations

from collections.abc import Mapping

from odradek.config.authorizer import parse_super_users
from odradek.config.checks import ConfigurationError, Secret, host_and_port, voters
from odradek.config.group_config import GroupConfig
from odradek.config.layers import BrokerLayers, usable_dynamic
from odradek.config.listeners import (
    WILDCARD_HOSTS,
    Listener,
    parse_address_counts,
    parse_listeners,
    parse_protocol_map,
    with_controller_names,
)
from odradek.config.peers import PeerSettings, peer_settings
from odradek.config.registry import broker_settings
from odradek.config.sasl import SASL_PROTOCOLS, SaslSettings, sasl_settings
from odradek.config.tls import TLS_PROTOCOLS, TlsSettings, tls_settings
from odradek.config.topic_config import TopicConfig
from odradek.config.view import View

BROKER, CONTROLLER = "broker", "controller"
RACK_AWARE_SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


class BrokerConfig(View):
    """The effective settings of this node, from defaults, the file, overrides and dynamic values.

    An attribute with the name of a setting (with `_` for `.`) has the value of this setting, unless
    its docstring says more. Settings that are only defaults of topic settings are in
    `topic_defaults`. `value` returns any other setting.

    Raises:
        ConfigurationError: a value is invalid.
    """

    node_id: int
    broker_rack: str | None
    auto_create_topics_enable: bool
    delete_topic_enable: bool
    num_partitions: int
    default_replication_factor: int
    telemetry_max_bytes: int

    unstable_api_versions_enable: bool
    socket_send_buffer_bytes: int
    socket_receive_buffer_bytes: int
    socket_listen_backlog_size: int
    socket_request_max_bytes: int
    connections_max_idle_ms: int
    connection_failed_authentication_delay_ms: int
    max_connections: int
    max_connections_per_ip: int
    fetch_max_bytes: int
    max_request_partition_size_limit: int
    max_incremental_fetch_session_cache_slots: int
    request_timeout_ms: int
    max_connection_creation_rate: int
    quota_window_num: int
    quota_window_size_seconds: int
    controller_quota_window_num: int
    controller_quota_window_size_seconds: int

    controller_quorum_election_timeout_ms: int
    controller_quorum_election_backoff_max_ms: int
    controller_quorum_fetch_timeout_ms: int
    controller_quorum_request_timeout_ms: int
    controller_quorum_retry_backoff_ms: int
    controller_quorum_auto_join_enable: bool
    metadata_log_segment_bytes: int
    metadata_log_segment_ms: int
    metadata_log_max_record_bytes_between_snapshots: int
    metadata_log_max_snapshot_interval_ms: int
    metadata_max_retention_bytes: int
    metadata_max_retention_ms: int
    metadata_max_idle_interval_ms: int
    broker_heartbeat_interval_ms: int
    broker_session_timeout_ms: int
    controlled_shutdown_enable: bool
    initial_broker_registration_timeout_ms: int
    auto_leader_rebalance_enable: bool
    leader_imbalance_check_interval_seconds: int
    unclean_leader_election_interval_ms: int

    log_retention_check_interval_ms: int
    log_flush_scheduler_interval_ms: int
    log_flush_offset_checkpoint_interval_ms: int
    log_flush_start_offset_checkpoint_interval_ms: int
    num_recovery_threads_per_data_dir: int
    log_initial_task_delay_ms: int
    log_dir_failure_timeout_ms: int
    producer_id_expiration_ms: int
    producer_id_expiration_check_interval_ms: int
    log_cleaner_enable: bool
    log_cleaner_threads: int
    log_cleaner_io_max_bytes_per_second: float
    log_cleaner_dedupe_buffer_size: int
    log_cleaner_io_buffer_size: int
    log_cleaner_io_buffer_load_factor: float
    log_cleaner_backoff_ms: int
    min_insync_replicas: int
    replica_high_watermark_checkpoint_interval_ms: int
    replica_lag_time_max_ms: int
    replica_socket_timeout_ms: int
    replica_fetch_max_bytes: int
    replica_fetch_wait_max_ms: int
    replica_fetch_min_bytes: int
    replica_fetch_response_max_bytes: int
    replica_fetch_backoff_ms: int
    replica_selector_class: str | None
    leader_replication_throttled_rate: int
    follower_replication_throttled_rate: int
    replication_quota_window_num: int
    replication_quota_window_size_seconds: int
    alter_log_dirs_replication_quota_window_num: int
    alter_log_dirs_replication_quota_window_size_seconds: int
    replica_alter_log_dirs_io_max_bytes_per_second: int

    group_min_session_timeout_ms: int
    group_max_session_timeout_ms: int
    group_initial_rebalance_delay_ms: int
    group_max_size: int
    offset_metadata_max_bytes: int
    offsets_load_buffer_size: int
    offsets_topic_replication_factor: int
    offsets_topic_num_partitions: int
    offsets_topic_segment_bytes: int
    offsets_topic_compression_codec: int
    offsets_retention_minutes: int
    offsets_retention_check_interval_ms: int
    offsets_commit_timeout_ms: int
    group_consumer_min_session_timeout_ms: int
    group_consumer_max_session_timeout_ms: int
    group_consumer_min_heartbeat_interval_ms: int
    group_consumer_max_heartbeat_interval_ms: int
    group_consumer_max_size: int
    group_consumer_assignors: tuple[str, ...]
    group_consumer_migration_policy: str
    group_consumer_regex_refresh_interval_ms: int
    group_consumer_min_assignment_interval_ms: int
    group_consumer_max_assignment_interval_ms: int
    group_share_min_session_timeout_ms: int
    group_share_max_session_timeout_ms: int
    group_share_min_heartbeat_interval_ms: int
    group_share_max_heartbeat_interval_ms: int
    group_share_min_assignment_interval_ms: int
    group_share_max_assignment_interval_ms: int
    group_share_max_size: int
    group_share_max_share_sessions: int
    errors_deadletterqueue_topic_name_prefix: str
    errors_deadletterqueue_auto_create_topics_enable: bool
    group_share_delivery_count_limit: int
    group_share_min_delivery_count_limit: int
    group_share_max_delivery_count_limit: int
    group_share_record_lock_duration_ms: int
    group_share_min_record_lock_duration_ms: int
    group_share_max_record_lock_duration_ms: int
    group_share_partition_max_record_locks: int
    group_share_min_partition_max_record_locks: int
    group_share_max_partition_max_record_locks: int
    group_share_initialize_retry_interval_ms: int
    group_streams_min_session_timeout_ms: int
    group_streams_max_session_timeout_ms: int
    group_streams_min_heartbeat_interval_ms: int
    group_streams_max_heartbeat_interval_ms: int
    group_streams_min_assignment_interval_ms: int
    group_streams_max_assignment_interval_ms: int
    group_streams_max_standby_replicas: int
    group_streams_max_size: int
    group_streams_topology_description_plugin_class: str | None

    share_coordinator_load_buffer_size: int
    share_coordinator_write_timeout_ms: int
    share_coordinator_snapshot_update_records_per_snapshot: int
    share_coordinator_cold_partition_snapshot_interval_ms: int
    share_coordinator_state_topic_num_partitions: int
    share_coordinator_state_topic_replication_factor: int
    share_coordinator_state_topic_min_isr: int
    share_coordinator_state_topic_segment_bytes: int
    share_coordinator_state_topic_compression_codec: int
    share_coordinator_state_topic_prune_interval_ms: int

    transaction_max_timeout_ms: int
    transactional_id_expiration_ms: int
    transaction_state_log_replication_factor: int
    transaction_state_log_num_partitions: int
    transaction_state_log_segment_bytes: int
    transaction_state_log_min_isr: int
    transaction_state_log_load_buffer_size: int
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int
    transaction_remove_expired_transaction_cleanup_interval_ms: int
    transaction_partition_verification_enable: bool
    transaction_two_phase_commit_enable: bool
    add_partitions_to_txn_retry_backoff_ms: int
    add_partitions_to_txn_retry_backoff_max_ms: int

    delegation_token_secret_key: Secret | None
    delegation_token_max_lifetime_ms: int
    delegation_token_expiry_time_ms: int
    delegation_token_expiry_check_interval_ms: int

    authorizer_class_name: str
    allow_everyone_if_no_acl_found: bool

    odradek_metrics_host: str
    odradek_metrics_port: int
    odradek_metrics_names: str
    odradek_log_level: str
    odradek_log_format: str
    odradek_shutdown_timeout_ms: int

    process_roles: frozenset[str]
    """The roles `broker` and `controller`, or one of them."""
    log_dirs: tuple[str, ...]
    """The paths in `log.dirs`. If it is not set, the paths in `log.dir`."""
    metadata_log_dir: str
    """The path in `metadata.log.dir`. If it is not set, the first path in `log_dirs`."""
    listeners: tuple[Listener, ...]
    """All listeners."""
    broker_listeners: tuple[Listener, ...]
    controller_listeners: tuple[Listener, ...]
    advertised_listeners: tuple[Listener, ...]
    """The addresses returned to clients. An empty host means this machine's name; if the listener is
    not in `advertised_by_setting`, all wildcards mean it, and clients get the address they used."""
    advertised_by_setting: frozenset[str]
    """The names of the listeners whose address is in `advertised.listeners`."""
    sasl_by_listener: Mapping[str, SaslSettings]
    """The SASL settings of the listeners that use SASL, by name."""
    tls_by_listener: Mapping[str, TlsSettings]
    """The TLS settings of the listeners that use TLS, by name."""
    broker_peers: PeerSettings | None
    """How this node connects to other brokers; None if without TLS and SASL."""
    controller_peers: PeerSettings | None
    """How this node connects to controllers; None if without TLS and SASL."""
    advertised_controller_listeners: tuple[Listener, ...]
    controller_listener_names: tuple[str, ...]
    inter_broker_listener_name: str
    quorum_voters: Mapping[int, tuple[str, int]]
    """Host and port by node id, from `controller.quorum.voters`."""
    quorum_bootstrap_servers: tuple[str, ...]
    group_coordinator_rebalance_protocols: frozenset[str]
    max_connections_per_ip_overrides: Mapping[str, int]
    max_connections_by_listener: Mapping[str, int]
    """`max.connections` of each listener, which may have a value of its own."""
    max_connection_creation_rate_by_listener: Mapping[str, int]
    """`max.connection.creation.rate` of each listener, which may have a value of its own."""
    super_users: frozenset[str]
    """The principals in `super.users`."""
    topic_defaults: TopicConfig
    """The settings of a topic for which no value is set."""
    layers: BrokerLayers
    ignored: tuple[str, ...]
    """The reasons why stored dynamic values were ignored, for the log."""

    def __init__(self, layers: BrokerLayers, ignored: tuple[str, ...] = ()) -> None:
        self._set(layers=layers, ignored=ignored)
        self._fill(_NAMES, layers.value)
        self._set_node(layers)
        self._set_listeners(layers)
        self._set(topic_defaults=self.topic_config({}))

    def _set_node(self, layers: BrokerLayers) -> None:
        directories = _list(layers, "log.dirs") or _list(layers, "log.dir")
        metadata_directory = layers.value("metadata.log.dir") or directories[0]
        protocols = _list(layers, "group.coordinator.rebalance.protocols")
        quorum_voters = "controller.quorum.voters"
        self._set(
            process_roles=frozenset(_list(layers, "process.roles")),
            log_dirs=directories,
            metadata_log_dir=str(metadata_directory),
            quorum_voters=voters(quorum_voters, layers.value(quorum_voters)),
            quorum_bootstrap_servers=_list(layers, "controller.quorum.bootstrap.servers"),
            group_coordinator_rebalance_protocols=frozenset(each.lower() for each in protocols),
            max_connections_per_ip_overrides=parse_address_counts(
                str(layers.value("max.connections.per.ip.overrides"))
            ),
            super_users=parse_super_users(str(layers.value("super.users"))),
        )

    def _set_listeners(self, layers: BrokerLayers) -> None:
        entries = _list(layers, "listeners")
        controllers = tuple(each.upper() for each in _controller_names(layers))
        map_name = "listener.security.protocol.map"
        protocols = parse_protocol_map(str(layers.value(map_name)))
        if map_name not in layers.effective:
            protocols = with_controller_names(protocols, controllers, entries)
        listeners = parse_listeners("listeners", entries, protocols)
        advertised_entries = _list(layers, "advertised.listeners")
        advertised = listeners
        if advertised_entries:
            name = "advertised.listeners"
            advertised = parse_listeners(name, advertised_entries, protocols, distinct_ports=False)
        inter_broker = layers.value("inter.broker.listener.name")
        if inter_broker is None:
            inter_broker = layers.value("security.inter.broker.protocol")
        self._set(
            listeners=listeners,
            broker_listeners=tuple(each for each in listeners if each.name not in controllers),
            controller_listeners=tuple(each for each in listeners if each.name in controllers),
            sasl_by_listener={
                each.name: sasl_settings(layers, each.name)
                for each in listeners
                if each.security_protocol in SASL_PROTOCOLS
            },
            tls_by_listener={
                each.name: tls_settings(layers, each.name, each.security_protocol)
                for each in listeners
                if each.security_protocol in TLS_PROTOCOLS
            },
            advertised_listeners=tuple(each for each in advertised if each.name not in controllers),
            advertised_by_setting=frozenset(each.name for each in advertised if advertised_entries),
            advertised_controller_listeners=_advertised_controllers(
                controllers, advertised, listeners
            ),
            controller_listener_names=controllers,
            inter_broker_listener_name=str(inter_broker).upper(),
            max_connections_by_listener={
                each.name: _of_listener(layers, each.name, "max.connections") for each in listeners
            },
            max_connection_creation_rate_by_listener={
                each.name: _of_listener(layers, each.name, "max.connection.creation.rate")
                for each in listeners
            },
        )
        has_peers = not self.is_alone
        self._set(
            broker_peers=peer_settings(
                layers,
                self.inter_broker_listener_name,
                protocols,
                "sasl.mechanism.inter.broker.protocol",
            )
            if has_peers and self.is_broker
            else None,
            controller_peers=peer_settings(
                layers, controllers[0], protocols, "sasl.mechanism.controller.protocol"
            )
            if has_peers and controllers
            else None,
        )

    @property
    def is_broker(self) -> bool:
        """Whether this node serves clients."""
        return BROKER in self.process_roles

    @property
    def is_controller(self) -> bool:
        """Whether this node is a member of the controller quorum."""
        return CONTROLLER in self.process_roles

    @property
    def is_rack_aware(self) -> bool:
        """Whether consumers read from a replica in their rack (KIP-392)."""
        return self.replica_selector_class == RACK_AWARE_SELECTOR

    def needs_own_host(self, advertised: Listener) -> bool:
        """Whether other nodes are told this machine's name for a listener."""
        return advertised.is_wildcard and (
            not advertised.host or advertised.name not in self.advertised_by_setting
        )

    def is_own_controller(self, host: str, port: int) -> bool:
        """Whether this is the address of one of this node's controller listeners."""
        own = (*self.controller_listeners, *self.advertised_controller_listeners)
        return any(
            each.port == port and (each.host == host or {each.host, host} <= _LOCAL_HOSTS)
            for each in own
        )

    @property
    def is_first_voter(self) -> bool:
        """Whether this node is a controller, and the configuration names no other controller.

        If its directories are empty, they are formatted with this node as the only voter. Other
        voters may be added later.
        """
        servers = self.quorum_bootstrap_servers
        if not self.is_controller or len(self.quorum_voters) > 1:
            return False
        if not self.controller_listeners:
            return len(servers) <= 1
        name = "controller.quorum.bootstrap.servers"
        addresses = (host_and_port(name, each, "host:port") for each in servers)
        return all(self.is_own_controller(*each) for each in addresses)

    @property
    def is_alone(self) -> bool:
        """Whether this node is the only voter, and no other node can reach its controller."""
        return self.is_first_voter and not self.controller_listeners

    def value(self, name: str) -> object:
        """Return the value of any broker setting, by its dotted name.

        Raises:
            KeyError: there is no such setting.
            ConfigurationError: the value is invalid, or a required value is missing.
        """
        return self.layers.value(name)

    def topic_config(self, overrides: Mapping[str, str]) -> TopicConfig:
        """Return the settings of a topic. `overrides` are the values that are set for the topic.

        Raises:
            ConfigurationError: a value is invalid.
        """
        return TopicConfig(overrides, self.layers)

    def group_config(self, overrides: Mapping[str, str]) -> GroupConfig:
        """Return the settings of a group. `overrides` are the values that are set for the group.

        Raises:
            ConfigurationError: a value is invalid.
        """
        return GroupConfig(overrides, self.layers)

    def with_dynamic(
        self, cluster_default: Mapping[str, str], per_broker: Mapping[str, str]
    ) -> BrokerConfig:
        """Return this configuration with other dynamic values.

        Invalid values are ignored, as in Kafka. `ignored` has the reasons.
        """
        usable_default, default_problems = usable_dynamic(cluster_default, per_broker=False)
        usable_broker, broker_problems = usable_dynamic(per_broker, per_broker=True)
        problems = [*default_problems, *broker_problems]
        try:
            layers = BrokerLayers(self.layers.static, usable_default, usable_broker)
            return BrokerConfig(layers, tuple(problems))
        except ConfigurationError as error:  # of several settings together, such as those of SASL
            problems.append(f"no dynamic setting of this broker is used: {error}")
        return BrokerConfig(BrokerLayers(self.layers.static, usable_default), tuple(problems))


_LOCAL_HOSTS = WILDCARD_HOSTS | {"localhost", "127.0.0.1", "::1"}
"""Hosts that all mean this machine, in the address of a listener or of a server."""

_COMPUTED = frozenset(
    (
        "process_roles",
        "log_dirs",
        "metadata_log_dir",
        "listeners",
        "broker_listeners",
        "controller_listeners",
        "advertised_listeners",
        "advertised_by_setting",
        "advertised_controller_listeners",
        "sasl_by_listener",
        "tls_by_listener",
        "broker_peers",
        "controller_peers",
        "controller_listener_names",
        "inter_broker_listener_name",
        "quorum_voters",
        "quorum_bootstrap_servers",
        "group_coordinator_rebalance_protocols",
        "max_connections_per_ip_overrides",
        "max_connections_by_listener",
        "max_connection_creation_rate_by_listener",
        "super_users",
        "topic_defaults",
        "layers",
        "ignored",
    )
)
_NAMES = tuple(name for name in BrokerConfig.__annotations__ if name not in _COMPUTED)


def _list(layers: BrokerLayers, name: str) -> tuple[str, ...]:
    value = layers.value(name)
    assert value is None or isinstance(value, tuple)
    return value or ()


PER_LISTENER = frozenset(("max.connections", "max.connection.creation.rate"))
"""The settings of connections that have an effect with the prefix of a listener."""


def _of_listener(layers: BrokerLayers, listener: str, name: str) -> int:
    """Return a setting of a listener; the setting without prefix if it has none."""
    text = layers.effective.get(f"listener.name.{listener.lower()}.{name}")
    value = layers.value(name) if text is None else broker_settings()[name].parse(text)
    assert isinstance(value, int)
    return value


def _controller_names(layers: BrokerLayers) -> tuple[str, ...]:
    """Return the names of the controller listeners; none if the setting is missing.

    Kafka requires the setting. Without it, the controller can be reached only inside the node.
    """
    name = "controller.listener.names"
    return _list(layers, name) if name in layers.effective else ()


def _advertised_controllers(
    controllers: tuple[str, ...], advertised: tuple[Listener, ...], listeners: tuple[Listener, ...]
) -> tuple[Listener, ...]:
    """Return the advertised address of each controller listener, by default the bind address."""
    by_name = {each.name: each for each in (*listeners, *advertised)}
    return tuple(by_name[name] for name in controllers if name in by_name)
