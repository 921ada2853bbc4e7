"""A fake broker with scripted responses, over real sockets."""

from __future__ import annotations

import struct
from collections import defaultdict

from tests.client.listening import Listening

from odradek.wire.api import BY_KEY
from odradek.wire.generated.api_versions_request import ApiVersionsRequest
from odradek.wire.generated.api_versions_response import ApiVersion, ApiVersionsResponse
from odradek.wire.generated.find_coordinator_request import FindCoordinatorRequest
from odradek.wire.generated.find_coordinator_response import Coordinator, FindCoordinatorResponse
from odradek.wire.generated.init_producer_id_request import InitProducerIdRequest
from odradek.wire.generated.init_producer_id_response import InitProducerIdResponse
from odradek.wire.generated.metadata_request import MetadataRequest
from odradek.wire.generated.metadata_response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from odradek.wire.generated.request_header import RequestHeader
from odradek.wire.generated.response_header import ResponseHeader

NODE_ID = 7
TELEMETRY = (71, 72)


class Disconnect(Exception):
    """Raised by a handler: close the connection instead of answering."""


class FakeBroker(Listening):
    """`answers` maps an API key to a function from a request to a response (or raw bytes).

    A list of such functions is used one by one, the last for ever. `requests` and `versions` keep
    what came, by API key. `topics` are those that Metadata shows, with their number of partitions.
    """

    def __init__(self):
        super().__init__()
        self.topics = {}
        self.cluster_id = None
        self.answers = {
            ApiVersionsRequest.API_KEY: lambda _: self.api_versions(),
            MetadataRequest.API_KEY: lambda _: self.metadata(),
            FindCoordinatorRequest.API_KEY: self.coordinators,
            InitProducerIdRequest.API_KEY: lambda _: InitProducerIdResponse(
                producer_id=1000, producer_epoch=0
            ),
        }
        self.requests = defaultdict(list)
        self.versions = defaultdict(list)
        self.advertised = "127.0.0.1", self.port

    def _serve(self, connection):
        with connection, connection.makefile("rb") as stream:
            try:
                while len(size := stream.read(4)) == 4:
                    answer = self._answer(stream.read(struct.unpack(">i", size)[0]))
                    if answer is not None:
                        connection.sendall(struct.pack(">i", len(answer)) + answer)
            except (Disconnect, OSError):
                return

    def _answer(self, frame):
        key, version = struct.unpack_from(">hh", frame)
        api = BY_KEY[key]
        header, position = RequestHeader.decode_prefix(frame, api.request_header_version(version))
        request = api.request_class().decode(frame, version, position)
        self.requests[key].append(request)
        self.versions[key].append(version)
        answers = self.answers[key]
        if isinstance(answers, list):
            answers = answers.pop(0) if len(answers) > 1 else answers[0]
        response = answers(request)
        if response is None:
            return None
        if isinstance(response, bytes):
            return struct.pack(">i", header.correlation_id) + response
        head = ResponseHeader(correlation_id=header.correlation_id)
        return head.encode(api.response_header_version(version)) + response.encode(version)

    # -- answers to start from --------------------------------------------------------------

    def api_versions(self, **changed):
        """All that is declared, without those of telemetry, as of a broker without subscriptions.

        `changed` maps an API's name to (lowest, highest) or None.
        """
        ranges = {
            api.key: changed.get(
                api.name, None if api.key in TELEMETRY else (api.version_min, api.version_max)
            )
            for api in BY_KEY.values()
        }
        return ApiVersionsResponse(
            api_keys=[
                ApiVersion(api_key=key, min_version=offered[0], max_version=offered[1])
                for key, offered in ranges.items()
                if offered is not None
            ]
        )

    def metadata(self, leader=NODE_ID, error_code=0):
        host, port = self.advertised
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=NODE_ID, host=host, port=port)],
            controller_id=NODE_ID,
            cluster_id=self.cluster_id,
            topics=[
                MetadataResponseTopic(
                    name=name,
                    error_code=error_code,
                    partitions=[
                        MetadataResponsePartition(
                            partition_index=index,
                            leader_id=leader,
                            leader_epoch=0,
                            replica_nodes=[NODE_ID],
                            isr_nodes=[NODE_ID],
                        )
                        for index in range(count)
                    ],
                )
                for name, count in self.topics.items()
            ],
        )

    def coordinators(self, request):
        host, port = self.advertised
        return FindCoordinatorResponse(
            coordinators=[
                Coordinator(key=key, node_id=NODE_ID, host=host, port=port)
                for key in request.coordinator_keys
            ]
        )
