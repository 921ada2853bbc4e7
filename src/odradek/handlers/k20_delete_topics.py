"""DeleteTopics (20), versions 1-6: the controller deletes topics.

- A topic has a name or, from version 6 on, an id. If a topic has both or neither, or if a request
  contains a topic twice, the error is INVALID_REQUEST.
- With delete.topic.enable=false the error is TOPIC_DELETION_DISABLED (before version 3:
  INVALID_REQUEST).
"""

from __future__ import annotations

from odradek.handlers.decisions import decide
from odradek.handlers.handler import Handler
from odradek.model.errors import ApiError
from odradek.model.uuids import ZERO
from odradek.wire.generated.delete_topics_request import DeleteTopicsRequest
from odradek.wire.generated.delete_topics_response import DeletableTopicResult, DeleteTopicsResponse


def _error_response(request: DeleteTopicsRequest, error: ApiError) -> DeleteTopicsResponse:
    topics = [(topic.name, topic.topic_id) for topic in request.topics]
    topics += [(name, ZERO) for name in request.topic_names]
    return DeleteTopicsResponse(
        responses=[
            DeletableTopicResult(
                name=name, topic_id=topic_id, error_code=error.code, error_message=error.message
            )
            for name, topic_id in topics
        ]
    )


HANDLER = Handler(
    request=DeleteTopicsRequest,
    controller=decide,
    error_response=_error_response,
)
