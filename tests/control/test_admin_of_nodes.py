"""What clients see of fenced brokers, and the settings and loggers that controllers serve."""

import logging

from odradek.handlers import k03_metadata, k75_describe_topic_partitions
from odradek.model.errors import ErrorCode
from odradek.wire.generated import describe_topic_partitions_request as paging
from odradek.wire.generated.metadata_request import MetadataRequest

from .test_admin_handlers import (
    BROKER,
    DELETE,
    LOGGER,
    SET,
    alter,
    asking,
    change,
    described,
    named,
)
from .test_controller_node import run
from .test_topic_decisions import topic


@run
async def test_a_fenced_leader_is_no_leader_for_clients(tmp_path):
    """A fenced broker keeps the partitions that have no other replica."""

    async def leaders(client):
        answer = await client.ask(k03_metadata, MetadataRequest(topics=named("a")))
        first = answer.topics[0].partitions[0]
        request = paging.DescribeTopicPartitionsRequest(topics=[paging.TopicRequest(name="a")])
        page = await client.ask(k75_describe_topic_partitions, request)
        return first.error_code, first.leader_id, page.topics[0].partitions[0].leader_id

    async with asking(tmp_path) as client:
        await client.create(topic("a"))
        lifecycle, metadata = client.broker.lifecycle, client.broker.metadata
        assert await leaders(client) == (0, 1, 1)
        await lifecycle.fence(metadata.image.offset)
        assert await leaders(client) == (ErrorCode.LEADER_NOT_AVAILABLE, -1, -1)
        await lifecycle.unfence(metadata.image.offset)
        assert await leaders(client) == (0, 1, 1)


@run
async def test_a_controller_listener_has_the_settings_and_loggers_of_its_node(tmp_path):
    """For kafka-configs --bootstrap-controller (KIP-919)."""
    name = "odradek.test_loggers"
    logger = logging.getLogger(name)
    async with asking(tmp_path, is_controller=True) as client:
        assert await alter(
            client,
            change(BROKER, "1", ("max.connections", SET, "7")),
            change(LOGGER, "1", (name, SET, "ERROR")),
            change(LOGGER, "2", (name, SET, "DEBUG")),
        ) == [0, 0, ErrorCode.INVALID_REQUEST]
        assert logger.level == logging.ERROR
        _, settings = await described(client, BROKER, "1", ["max.connections"])
        assert settings["max.connections"].value == "7"
        _, levels = await described(client, LOGGER, "1", [name])
        assert levels[name].value == "ERROR"
        assert (await described(client, BROKER, "2"))[0] == ErrorCode.INVALID_REQUEST
        assert await alter(client, change(LOGGER, "1", (name, DELETE, None))) == [0]
