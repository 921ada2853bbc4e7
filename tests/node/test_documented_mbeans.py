"""Every MBean in the monitoring documentation of Apache Kafka is a metric, or listed with a reason."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.checkout import ROOT

from odradek.client.cluster import Cluster
from odradek.client.producer import Producer
from odradek.testing import Broker

from .exported import exported

HERE = Path(__file__).parent
DASHBOARDS = {
    "total": """
kafka_cluster_partition_atminisr kafka_cluster_partition_insyncreplicascount
kafka_cluster_partition_laststableoffsetlag kafka_cluster_partition_replicascount
kafka_cluster_partition_underminisr kafka_cluster_partition_underreplicated
kafka_controller_controllerstats_uncleanleaderelections_total
kafka_controller_kafkacontroller_activecontrollercount
kafka_controller_kafkacontroller_offlinepartitionscount
kafka_log_log_size kafka_network_requestmetrics_errors_total
kafka_network_requestmetrics_localtimems kafka_network_requestmetrics_remotetimems
kafka_network_requestmetrics_requestqueuetimems kafka_network_requestmetrics_requests_total
kafka_network_requestmetrics_responsequeuetimems kafka_network_requestmetrics_responsesendtimems
kafka_network_requestmetrics_totaltimems
kafka_network_socketserver_networkprocessoravgidle_percent
kafka_server_brokertopicmetrics_bytesin_total kafka_server_brokertopicmetrics_bytesout_total
kafka_server_brokertopicmetrics_failedfetchrequests_total
kafka_server_brokertopicmetrics_failedproducerequests_total
kafka_server_brokertopicmetrics_fetchmessageconversions_total
kafka_server_brokertopicmetrics_messagesin_total
kafka_server_brokertopicmetrics_producemessageconversions_total
kafka_server_brokertopicmetrics_totalfetchrequests_total
kafka_server_brokertopicmetrics_totalproducerequests_total
kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent
kafka_server_kafkaserver_brokerstate kafka_server_kafkaserver_linux_disk_read_bytes
kafka_server_kafkaserver_linux_disk_write_bytes kafka_server_raft_metrics_current_leader
kafka_server_raftchannelmetrics_incoming_byte_total
kafka_server_raftchannelmetrics_outgoing_byte_total
kafka_server_raftchannelmetrics_request_total kafka_server_raftchannelmetrics_response_total
kafka_server_raftmetrics_append_records_rate kafka_server_raftmetrics_commit_latency_avg
kafka_server_raftmetrics_current_epoch kafka_server_raftmetrics_current_leader
kafka_server_raftmetrics_current_state kafka_server_raftmetrics_current_vote
kafka_server_raftmetrics_fetch_records_rate kafka_server_raftmetrics_high_watermark
kafka_server_raftmetrics_log_end_offset kafka_server_replicamanager_leadercount
kafka_server_replicamanager_partitioncount kafka_server_replicamanager_underreplicatedpartitions
kafka_server_socket_server_metrics_connection_count
""",
    "persec": """
kafka_cluster_partition_underminisr kafka_controller_controllereventmanager_eventqueueprocessingtimems
kafka_controller_controllereventmanager_eventqueuetimems
kafka_controller_controllerstats_uncleanleaderelectionspersec
kafka_controller_kafkacontroller_activebrokercount
kafka_controller_kafkacontroller_fencedbrokercount
kafka_controller_kafkacontroller_lastappliedrecordlagms
kafka_controller_kafkacontroller_metadataerrorcount
kafka_controller_kafkacontroller_preferredreplicaimbalancecount
kafka_coordinator_group_groupmetadatamanager_numgroups
kafka_coordinator_group_groupmetadatamanager_numgroupsstable kafka_log_log_logendoffset
kafka_network_acceptor_acceptorblockedpercent kafka_network_processor_idlepercent
kafka_network_requestchannel_requestqueuesize kafka_network_requestchannel_responsequeuesize
kafka_network_requestmetrics_errorspersec kafka_network_requestmetrics_throttletimems
kafka_network_requestmetrics_localtimems kafka_network_requestmetrics_requestspersec
kafka_network_requestmetrics_totaltimems
kafka_network_socketserver_networkprocessoravgidlepercent
kafka_server_brokertopicmetrics_bytesinpersec kafka_server_brokertopicmetrics_bytesoutpersec
kafka_server_brokertopicmetrics_fetchmessageconversionspersec
kafka_server_brokertopicmetrics_messagesinpersec
kafka_server_brokertopicmetrics_totalfetchrequestspersec
kafka_server_brokertopicmetrics_totalproducerequestspersec
kafka_server_fetchsessioncache_incrementalfetchsessionevictionspersec
kafka_server_fetchsessioncache_numincrementalfetchsessions
kafka_server_kafkarequesthandlerpool_requesthandleravgidlepercent_oneminuterate
kafka_server_kafkaserver_brokerstate kafka_server_kafkaserver_linux_disk_read_bytes
kafka_server_raft_metrics_append_records_rate kafka_server_raft_metrics_commit_latency_avg
kafka_server_raft_metrics_current_epoch kafka_server_raft_metrics_current_leader
kafka_server_raft_metrics_election_latency_max kafka_server_raft_metrics_fetch_records_rate
kafka_server_raft_metrics_high_watermark kafka_server_replicafetchermanager_maxlag
kafka_server_replicamanager_isrexpandspersec kafka_server_replicamanager_isrshrinkspersec
kafka_server_replicamanager_leadercount kafka_server_replicamanager_partitioncount
kafka_server_replicamanager_underreplicatedpartitions
kafka_server_socketservermetrics_connection_close_rate
kafka_server_socketservermetrics_connection_count
kafka_server_socketservermetrics_connection_creation_rate
kafka_server_replicafetchermanager_minfetchrate
kafka_server_transaction_coordinator_metrics_partition_load_time_avg
kafka_server_transaction_coordinator_metrics_partition_load_time_max
""",
}
"""Names in published dashboards for Apache Kafka."""


@pytest.fixture(scope="module")
def node():
    with Broker(topics={"orders": 1}) as broker:
        with Cluster(broker.bootstrap_servers) as cluster, Producer(cluster) as producer:
            producer.send("orders", b"v")
        yield broker.node


def documented() -> list[str]:
    lines = (HERE / "documented_mbeans.txt").read_text("utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def excused() -> list[str]:
    """The patterns in the table of docs/metrics.md."""
    text = (ROOT / "docs" / "metrics.md").read_text("utf-8")
    table = text[text.index("## Metrics of Apache Kafka that do not exist") :]
    return re.findall(r"`((?:kafka|org)[^`]+)`", table)


def test_every_documented_mbean_is_a_metric_or_listed_with_its_reason(node) -> None:
    metrics = list(node.metrics.metrics())
    found = {each.mbean.pattern for each in metrics}
    found |= {f"{each.mbean.pattern} {each.attribute}" for each in metrics}
    absent = [each for each in documented() if each not in found]
    patterns = excused()
    assert [each for each in absent if not any(map(each.startswith, plain(patterns)))] == []
    # What exists is not in the table.
    assert [each for each in patterns if not any(map(_matches(each), absent))] == []


def plain(patterns: list[str]) -> list[str]:
    return [each.replace("…", "") for each in patterns]


def _matches(pattern: str):
    return lambda name: name.startswith(pattern.replace("…", ""))


@pytest.mark.parametrize("names", sorted(DASHBOARDS))
def test_the_names_of_published_dashboards_exist(node, names: str) -> None:
    found = {each.name for each in exported(node, names)}
    assert [each for each in DASHBOARDS[names].split() if each not in found] == []


def test_the_levels_of_features_are_metrics(node) -> None:
    found = {each[:2]: each.value for each in node.metrics.values()}
    for feature, level in node.broker.metadata.image.features.finalized.items():
        first, *others = feature.split(".")
        camel_case = first + "".join(each.title() for each in others)
        name = f"kafka.server:type=MetadataLoader,name=FinalizedLevel,featureName={camel_case}"
        assert found[name, "Value"] == level
        supported = f"kafka.server:type=node-metrics,feature-name={feature.replace('.', '-')}"
        assert found[supported, "minimum-supported-level"] <= level
        assert level <= found[supported, "maximum-supported-level"]
    name = "kafka.server:type=MetadataLoader,name=FinalizedLevel,featureName=kraftVersion"
    assert found[name, "Value"] in (0, 1)
