"""The handlers of the admin APIs with a running controller, called as by the dispatcher."""

import asyncio
import contextlib
import logging
from types import SimpleNamespace

from odradek.broker.clients.request_context import RequestContext
from odradek.broker.controller.topic_creation import TopicCreation
from odradek.broker.settings.dynamic_config import DynamicConfig
from odradek.config.load import load
from odradek.handlers import (
    k03_metadata,
    k32_describe_configs,
    k33_alter_configs,
    k44_incremental_alter_configs,
    k60_describe_cluster,
    k74_list_config_resources,
    k75_describe_topic_partitions,
)
from odradek.handlers.error_answers import error_answer
from odradek.handlers.registry import SERVED
from odradek.model.errors import ApiError, ErrorCode
from odradek.network.peer import Peer
from odradek.wire.generated import describe_topic_partitions_request as paging
from odradek.wire.generated.alter_configs_request import AlterableConfig as LegacySetting
from odradek.wire.generated.alter_configs_request import AlterConfigsRequest
from odradek.wire.generated.alter_configs_request import AlterConfigsResource as LegacyResource
from odradek.wire.generated.create_topics_request import CreateTopicsRequest
from odradek.wire.generated.describe_cluster_request import DescribeClusterRequest
from odradek.wire.generated.describe_configs_request import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from odradek.wire.generated.describe_quorum_request import (
    DescribeQuorumRequest,
    PartitionData,
    TopicData,
)
from odradek.wire.generated.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.wire.generated.list_config_resources_request import ListConfigResourcesRequest
from odradek.wire.generated.metadata_request import MetadataRequest, MetadataRequestTopic

from .node import CLUSTER_ID, running
from .test_controller_node import run
from .test_topic_decisions import topic


class Asker:
    """Calls handlers as for a client, and checks that the response can be encoded."""

    def __init__(self, broker, peer, is_controller=False):
        self.broker = broker
        self.peer = peer
        self.is_controller = is_controller

    async def ask(self, handler, request, version=None):
        served = SERVED[request.API_KEY]
        version = served.version_max if version is None else version
        assert served.version_min <= version <= served.version_max
        request = type(request).decode(request.encode(version), version)
        context = RequestContext(self.peer, request.API_KEY, version, 1, "test", 0)
        try:
            function = handler.HANDLER.handle
            if self.is_controller:
                function = handler.HANDLER.controller
            answer = function(self.broker, context, request)
            if asyncio.iscoroutine(answer):
                answer = await answer
        except ApiError as error:
            if handler.HANDLER.error_response is not None:
                answer = handler.HANDLER.error_response(request, error)
            else:
                answer = error_answer(request, version, error.code, error.message)
        return type(answer).decode(answer.encode(version), version)

    async def create(self, *topics):
        answer = await self.broker.controller.submit(None, CreateTopicsRequest(topics=list(topics)))
        assert all(each.error_code == 0 for each in answer.topics)
        return answer.topics


@contextlib.asynccontextmanager
async def asking(path, listener="PLAINTEXT", is_controller=False, **settings):
    async with running(path, **settings) as node:
        overrides = {name.replace("_", "."): value for name, value in settings.items()}
        config = DynamicConfig(load({}, {"log.dirs": str(path), **overrides}).config)

        class Broker(SimpleNamespace):
            @property
            def config(self):
                return config.of(node.cache.image)

        broker = Broker(
            node_id=1,
            cluster_id=CLUSTER_ID,
            metadata=node.cache,
            controller=node.channel,
            decisions=node.channel,
            lifecycle=node.lifecycle,
            authorizer=None,
        )
        broker.topic_creation = TopicCreation(node.channel, lambda: broker.config)
        peer = Peer("10.0.0.9", 50000, listener, "10.0.0.1", 19092)
        yield Asker(broker, peer, is_controller)
        await broker.topic_creation.close()


def named(*names):
    return [MetadataRequestTopic(name=name) for name in names]


# -- Metadata ---------------------------------------------------------------------------------


@run
async def test_metadata_of_all_of_some_and_of_no_topics(tmp_path):
    async with asking(tmp_path) as client:
        await client.create(topic("a", 2), topic("b"))
        for version, all_topics in ((0, []), (1, None), (13, None)):
            answer = await client.ask(k03_metadata, MetadataRequest(topics=all_topics), version)
            assert [each.name for each in answer.topics] == ["a", "b"]
        answer = await client.ask(k03_metadata, MetadataRequest(topics=[]), 1)
        assert answer.topics == []
        answer = await client.ask(k03_metadata, MetadataRequest(topics=named("b", "b")), 4)
        assert [each.name for each in answer.topics] == ["b"]
        (broker,) = answer.brokers
        assert (broker.node_id, answer.controller_id, answer.cluster_id) == (1, 1, CLUSTER_ID)


@run
async def test_a_partition_in_metadata(tmp_path):
    async with asking(tmp_path) as client:
        (created,) = await client.create(topic("a"))
        answer = await client.ask(k03_metadata, MetadataRequest(topics=None))
        (found,) = answer.topics
        (partition,) = found.partitions
        assert found.topic_id == created.topic_id
        assert partition.error_code == 0
        assert (partition.leader_id, partition.leader_epoch) == (1, 0)
        assert partition.replica_nodes == partition.isr_nodes == [1]
        assert partition.offline_replicas == []


@run
async def test_clients_get_the_address_that_they_connected_to(tmp_path):
    async with asking(tmp_path, listeners="PLAINTEXT://:9092") as client:
        answer = await client.ask(k03_metadata, MetadataRequest(topics=[]))
        assert (answer.brokers[0].host, answer.brokers[0].port) == ("10.0.0.1", 19092)
    (tmp_path / "other").mkdir()
    async with asking(tmp_path / "other", listeners="PLAINTEXT://localhost:9092") as client:
        answer = await client.ask(k03_metadata, MetadataRequest(topics=[]))
        assert (answer.brokers[0].host, answer.brokers[0].port) == ("localhost", 9092)


@run
async def test_a_listener_that_the_leader_lacks(tmp_path):
    async with asking(tmp_path, listener="OTHER") as client:
        await client.create(topic("a"))
        for version, code in (
            (5, ErrorCode.LEADER_NOT_AVAILABLE),
            (6, ErrorCode.LISTENER_NOT_FOUND),
        ):
            answer = await client.ask(k03_metadata, MetadataRequest(topics=named("a")), version)
            partition = answer.topics[0].partitions[0]
            assert (partition.error_code, partition.leader_id) == (code, -1)
            assert answer.brokers == []
        answer = await client.ask(k03_metadata, MetadataRequest(topics=[]), 0)
        partition = answer.topics[0].partitions[0]
        assert partition.replica_nodes == []


@run
async def test_automatic_creation_answers_unknown_first(tmp_path):
    async with asking(tmp_path) as client:
        request = MetadataRequest(topics=named("new", "bad name"))
        answer = await client.ask(k03_metadata, request)
        assert {each.name: each.error_code for each in answer.topics} == {
            "new": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            "bad name": ErrorCode.INVALID_TOPIC_EXCEPTION,
        }
        await client.broker.topic_creation.close()
        answer = await client.ask(k03_metadata, MetadataRequest(topics=named("new")))
        assert answer.topics[0].error_code == 0
        request = MetadataRequest(topics=named("other"), allow_auto_topic_creation=False)
        await client.ask(k03_metadata, request)
        await client.broker.topic_creation.close()
        assert list(client.broker.metadata.image.topics.by_name) == ["new"]


@run
async def test_automatic_creation_may_be_disabled(tmp_path):
    async with asking(tmp_path, auto_create_topics_enable="false") as client:
        await client.ask(k03_metadata, MetadataRequest(topics=named("new")))
        await client.broker.topic_creation.close()
        assert not client.broker.metadata.image.topics.by_name


@run
async def test_concurrent_requests_share_a_creation(tmp_path):
    async with asking(tmp_path) as client:
        before = len(client.broker.metadata.image.topics.by_name)
        for _ in range(5):
            client.broker.topic_creation.begin(["one", "__consumer_offsets"])
        await client.broker.topic_creation.close()
        topics = client.broker.metadata.image.topics
        assert len(topics.by_name) == before + 2
        assert len(topics.by_name["__consumer_offsets"].partitions) == 50
        settings = client.broker.metadata.image.configs.of(2, "__consumer_offsets")
        assert settings["cleanup.policy"] == "compact"


@run
async def test_topics_by_id(tmp_path):
    async with asking(tmp_path) as client:
        (created,) = await client.create(topic("a"))
        unknown = bytes(15) + b"\x99"
        wanted = [
            MetadataRequestTopic(topic_id=created.topic_id, name=None),
            MetadataRequestTopic(topic_id=unknown, name=None),
        ]
        answer = await client.ask(k03_metadata, MetadataRequest(topics=wanted))
        assert [(each.name, each.error_code) for each in answer.topics] == [
            ("a", 0),
            (None, ErrorCode.UNKNOWN_TOPIC_ID),
        ]
        answer = await client.ask(k03_metadata, MetadataRequest(topics=wanted[:1]), 11)
        assert answer.topics[0].error_code == ErrorCode.INVALID_REQUEST


@run
async def test_authorized_operations_only_if_asked_for(tmp_path):
    async with asking(tmp_path) as client:
        await client.create(topic("a"))
        answer = await client.ask(k03_metadata, MetadataRequest(topics=None), 8)
        assert answer.cluster_authorized_operations == -(2**31)
        assert answer.topics[0].topic_authorized_operations == -(2**31)
        request = MetadataRequest(
            topics=None,
            include_cluster_authorized_operations=True,
            include_topic_authorized_operations=True,
        )
        answer = await client.ask(k03_metadata, request, 8)
        assert answer.topics[0].topic_authorized_operations == 3576
        assert answer.cluster_authorized_operations == 8096


# -- DescribeTopicPartitions ----------------------------------------------------------------------


async def pages(client, names, limit):
    cursor, found = None, []
    for _ in range(100):
        request = paging.DescribeTopicPartitionsRequest(
            topics=[paging.TopicRequest(name=name) for name in names],
            response_partition_limit=limit,
            cursor=cursor,
        )
        answer = await client.ask(k75_describe_topic_partitions, request)
        page = [(t.name, p.partition_index) for t in answer.topics for p in t.partitions]
        assert len(page) <= max(1, limit)
        found += page
        if answer.next_cursor is None:
            return found
        cursor = paging.Cursor(
            topic_name=answer.next_cursor.topic_name,
            partition_index=answer.next_cursor.partition_index,
        )
    raise AssertionError("the pages do not end")


@run
async def test_pages_give_every_partition_once_and_in_order(tmp_path):
    async with asking(tmp_path) as client:
        await client.create(topic("b", 5), topic("a", 3), topic("c", 1))
        everything = [("a", i) for i in range(3)] + [("b", i) for i in range(5)] + [("c", 0)]
        for limit in (0, 1, 2, 3, 8, 9, 100):
            assert await pages(client, [], limit) == everything
        assert await pages(client, ["c", "b"], 2) == everything[3:]


@run
async def test_unknown_topics_and_cursors_that_do_not_fit(tmp_path):
    async with asking(tmp_path) as client:
        await client.create(topic("a", 3))
        wanted = [paging.TopicRequest(name=name) for name in ("none", "bad name")]
        request = paging.DescribeTopicPartitionsRequest(topics=wanted)
        answer = await client.ask(k75_describe_topic_partitions, request)
        assert {each.name: each.error_code for each in answer.topics} == {
            "none": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            "bad name": ErrorCode.INVALID_TOPIC_EXCEPTION,
        }
        for cursor in (
            paging.Cursor(topic_name="z", partition_index=0),
            paging.Cursor(topic_name="a", partition_index=-1),
        ):
            request = paging.DescribeTopicPartitionsRequest(
                topics=[paging.TopicRequest(name="a")], cursor=cursor
            )
            answer = await client.ask(k75_describe_topic_partitions, request)
            assert answer.topics[0].error_code == ErrorCode.INVALID_REQUEST


# -- DescribeCluster --------------------------------------------------------------------------


@run
async def test_the_cluster_is_described(tmp_path):
    async with asking(tmp_path) as client:
        request = DescribeClusterRequest(include_cluster_authorized_operations=True)
        answer = await client.ask(k60_describe_cluster, request)
        assert (answer.cluster_id, answer.controller_id) == (CLUSTER_ID, 1)
        assert [each.broker_id for each in answer.brokers] == [1]
        for endpoint_type, code in (
            (2, ErrorCode.MISMATCHED_ENDPOINT_TYPE),
            (7, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
        ):
            request = DescribeClusterRequest(endpoint_type=endpoint_type)
            answer = await client.ask(k60_describe_cluster, request, 1)
            assert answer.error_code == code


# -- settings -------------------------------------------------------------------------------------


async def described(client, kind, name, keys=None, **options):
    resource = DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=keys
    )
    request = DescribeConfigsRequest(resources=[resource], **options)
    answer = await client.ask(k32_describe_configs, request)
    (result,) = answer.results
    return result.error_code, {each.name: each for each in result.configs}


def change(kind, name, *settings):
    configs = [
        AlterableConfig(name=each, config_operation=operation, value=value)
        for each, operation, value in settings
    ]
    return AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)


async def alter(client, *resources, validate_only=False):
    request = IncrementalAlterConfigsRequest(resources=list(resources), validate_only=validate_only)
    answer = await client.ask(k44_incremental_alter_configs, request)
    assert [each.resource_name for each in answer.responses] == [
        each.resource_name for each in resources
    ]
    return [ErrorCode.NONE if not r.error_code else r.error_code for r in answer.responses]


SET, DELETE, APPEND, SUBTRACT = range(4)
TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32


@run
async def test_settings_of_a_topic_are_changed_and_described(tmp_path):
    async with asking(tmp_path) as client:
        await client.create(topic("a"))
        changed = change(
            TOPIC, "a", ("retention.ms", SET, "99"), ("cleanup.policy", APPEND, "compact")
        )
        assert await alter(client, changed, validate_only=True) == [0]
        _, before = await described(client, TOPIC, "a")
        assert before["retention.ms"].config_source == 5
        assert await alter(client, changed) == [0]
        _, after = await described(client, TOPIC, "a", include_synonyms=True)
        assert after["retention.ms"].value == "99"
        assert after["retention.ms"].config_source == 1
        assert after["cleanup.policy"].value == "delete,compact"
        assert after["retention.ms"].synonyms[0].source == 1
        assert await alter(client, change(TOPIC, "a", ("cleanup.policy", SUBTRACT, "delete"))) == [
            0
        ]
        _, after = await described(client, TOPIC, "a", ["cleanup.policy"])
        assert {name: each.value for name, each in after.items()} == {"cleanup.policy": "compact"}
        assert await alter(client, change(TOPIC, "a", ("retention.ms", DELETE, None))) == [0]
        _, after = await described(client, TOPIC, "a")
        assert after["retention.ms"].config_source == 5


@run
async def test_what_cannot_be_changed(tmp_path):
    async with asking(tmp_path) as client:
        await client.create(topic("a"))
        cases = [
            (change(TOPIC, "none", ("retention.ms", SET, "1")), "UNKNOWN_TOPIC_OR_PARTITION"),
            (change(TOPIC, "a", ("no.such", SET, "1")), "INVALID_CONFIG"),
            (change(TOPIC, "a", ("retention.ms", SET, "soon")), "INVALID_CONFIG"),
            (change(TOPIC, "a", ("retention.ms", APPEND, "1")), "INVALID_CONFIG"),
            (change(TOPIC, "a", ("retention.ms", 9, "1")), "INVALID_REQUEST"),
            (change(TOPIC, "a", ("retention.ms", SET, None)), "INVALID_REQUEST"),
            (
                change(TOPIC, "a", ("retention.ms", SET, "1"), ("retention.ms", SET, "2")),
                "INVALID_REQUEST",
            ),
            (change(TOPIC, "", ("retention.ms", SET, "1")), "INVALID_REQUEST"),
            (change(BROKER, "2", ("log.retention.ms", SET, "1")), "INVALID_REQUEST"),
            (change(BROKER, "x", ("log.retention.ms", SET, "1")), "INVALID_REQUEST"),
            (change(BROKER, "1", ("log.dirs", SET, "/x")), "INVALID_REQUEST"),
            (change(BROKER, "1", ("min.insync.replicas", SET, "1")), "INVALID_CONFIG"),
            (change(GROUP, "", ("consumer.session.timeout.ms", SET, "1")), "INVALID_REQUEST"),
            (change(METRICS, "m", ("no.such", SET, "1")), "INVALID_REQUEST"),
            (change(99, "x", ("a", SET, "1")), "INVALID_REQUEST"),
        ]
        for resource, code in cases:
            (outcome,) = await alter(client, resource)
            assert ErrorCode[code] == outcome, resource
        assert not client.broker.metadata.image.configs.of(TOPIC, "a")


@run
async def test_a_resource_named_twice_is_not_changed(tmp_path):
    async with asking(tmp_path) as client:
        await client.create(topic("a"), topic("b"))
        outcome = await alter(
            client,
            change(TOPIC, "a", ("retention.ms", SET, "1")),
            change(TOPIC, "b", ("retention.ms", SET, "1")),
            change(TOPIC, "a", ("retention.ms", SET, "2")),
        )
        assert outcome == [ErrorCode.INVALID_REQUEST, 0, ErrorCode.INVALID_REQUEST]
        configs = client.broker.metadata.image.configs
        assert configs.of(TOPIC, "b") == {"retention.ms": "1"}
        assert not configs.of(TOPIC, "a")


@run
async def test_settings_of_brokers(tmp_path):
    async with asking(tmp_path) as client:
        outcome = await alter(
            client,
            change(BROKER, "", ("log.retention.ms", SET, "11")),
            change(BROKER, "1", ("log.cleaner.threads", SET, "2")),
        )
        assert outcome == [0, 0]
        _, default = await described(client, BROKER, "")
        assert default["log.retention.ms"].value == "11"
        assert default["log.retention.ms"].config_source == 3
        _, own = await described(client, BROKER, "1", include_documentation=True)
        assert own["log.cleaner.threads"].value == "2"
        assert own["log.cleaner.threads"].config_source == 2
        assert own["log.retention.ms"].value == "11"
        assert own["node.id"].read_only
        assert own["ssl.key.password"].is_sensitive
        assert own["node.id"].documentation
        error, _ = await described(client, BROKER, "2")
        assert error == ErrorCode.INVALID_REQUEST


@run
async def test_a_changed_minimum_of_replicas_clears_eligible_ones(tmp_path):
    async with asking(tmp_path) as client:
        await client.create(topic("a"))
        assert client.broker.metadata.image.configs.of(BROKER, "")["min.insync.replicas"] == "1"
        outcome = await alter(client, change(BROKER, "", ("min.insync.replicas", SET, "2")))
        assert outcome == [0]
        outcome = await alter(client, change(BROKER, "", ("min.insync.replicas", DELETE, None)))
        assert outcome == [ErrorCode.INVALID_CONFIG]


@run
async def test_loggers_change_their_levels(tmp_path):
    logger = logging.getLogger("odradek.test_loggers")
    async with asking(tmp_path) as client:
        _, levels = await described(client, LOGGER, "1")
        assert levels["odradek.test_loggers"].config_source == 6
        assert "root" in levels
        name = "odradek.test_loggers"
        assert await alter(
            client, change(LOGGER, "1", (name, SET, "TRACE")), validate_only=True
        ) == [0]
        assert logger.level == logging.NOTSET
        assert await alter(client, change(LOGGER, "1", (name, SET, "ERROR"))) == [0]
        assert logger.level == logging.ERROR
        _, levels = await described(client, LOGGER, "1", [name])
        assert {each: found.value for each, found in levels.items()} == {name: "ERROR"}
        assert await alter(client, change(LOGGER, "1", (name, DELETE, None))) == [0]
        assert logger.level == logging.NOTSET
        for bad, code in (
            ((name, SET, "LOUD"), ErrorCode.INVALID_CONFIG),
            (("no.such", SET, "INFO"), ErrorCode.INVALID_CONFIG),
            ((name, APPEND, "INFO"), ErrorCode.INVALID_REQUEST),
            (("root", DELETE, None), ErrorCode.INVALID_REQUEST),
        ):
            assert await alter(client, change(LOGGER, "1", bad)) == [code]
        assert await alter(client, change(LOGGER, "2", (name, SET, "INFO"))) == [
            ErrorCode.INVALID_REQUEST
        ]


@run
async def test_the_older_api_replaces_everything(tmp_path):
    async with asking(tmp_path) as client:
        await client.create(topic("a", settings={"retention.ms": "1", "segment.ms": "9"}))
        resources = [
            LegacyResource(
                resource_type=TOPIC,
                resource_name="a",
                configs=[LegacySetting(name="retention.bytes", value="7")],
            ),
            LegacyResource(resource_type=BROKER, resource_name="2"),
            LegacyResource(resource_type=LOGGER, resource_name="1"),
        ]
        answer = await client.ask(k33_alter_configs, AlterConfigsRequest(resources=resources))
        assert [each.error_code for each in answer.responses] == [
            0,
            ErrorCode.INVALID_REQUEST,
            ErrorCode.INVALID_REQUEST,
        ]
        assert client.broker.metadata.image.configs.of(TOPIC, "a") == {"retention.bytes": "7"}


@run
async def test_groups_and_metrics_have_settings(tmp_path):
    async with asking(tmp_path) as client:
        outcome = await alter(
            client,
            change(GROUP, "g", ("consumer.session.timeout.ms", SET, "50000")),
            change(METRICS, "m", ("interval.ms", SET, "1000")),
        )
        assert outcome == [0, 0]
        _, group = await described(client, GROUP, "g")
        assert group["consumer.session.timeout.ms"].value == "50000"
        assert group["consumer.session.timeout.ms"].config_source == 8
        _, metrics = await described(client, METRICS, "m")
        assert metrics["interval.ms"].value == "1000"
        await client.create(topic("a"))
        request = ListConfigResourcesRequest()
        answer = await client.ask(k74_list_config_resources, request)
        found = {(each.resource_type, each.resource_name) for each in answer.config_resources}
        assert found == {(TOPIC, "a"), (BROKER, "1"), (LOGGER, "1"), (METRICS, "m"), (GROUP, "g")}
        answer = await client.ask(k74_list_config_resources, request, 0)
        assert [each.resource_name for each in answer.config_resources] == ["m"]
        request = ListConfigResourcesRequest(resource_types=[3])
        answer = await client.ask(k74_list_config_resources, request)
        assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION


@run
async def test_the_quorum_is_described(tmp_path):
    async with running(tmp_path) as node:
        topics = [
            TopicData(
                topic_name="__cluster_metadata", partitions=[PartitionData(partition_index=0)]
            ),
            TopicData(topic_name="other", partitions=[PartitionData(partition_index=0)]),
        ]
        for version in (0, 1, 2):
            context = RequestContext(
                Peer("client", 1, "CLIENT", "host", 2), 55, version, 1, "test", 0
            )
            answer = await node.controller.submit(context, DescribeQuorumRequest(topics=topics))
            answer = type(answer).decode(answer.encode(version), version)
            (quorum,) = answer.topics[0].partitions
            assert (quorum.leader_id, quorum.leader_epoch) == (1, 1)
            assert quorum.high_watermark == quorum.current_voters[0].log_end_offset
            assert answer.topics[1].partitions[0].error_code == 3
        assert answer.nodes[0].listeners[0].name == "CONTROLLER"
