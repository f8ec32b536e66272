"""The answers to both ways of altering configs, which have the same shape."""

from collections.abc import Iterable, Mapping

from odradek.base.errors import KafkaError
from odradek.core.metadata.image import ConfigResource
from odradek.quorum.apis.commands.answers import NO_THROTTLE, code_of, message_of
from odradek.wire.schemas import Message, Schema


def resource_of(resource: Message) -> ConfigResource:
    return (resource.resource_type, resource.resource_name)


def answer(
    messages: Schema, response_name: str, results: Iterable[tuple[ConfigResource, KafkaError | None]]
) -> Message:
    return messages.new(
        response_name,
        throttle_time=NO_THROTTLE,
        responses=tuple(
            messages.new(
                "AlterConfigsResourceResponse",
                error_code=code_of(error),
                error_message=message_of(error),
                resource_type=resource[0],
                resource_name=resource[1],
            )
            for resource, error in results
        ),
    )


def in_order(
    request: Message, results: Mapping[ConfigResource, KafkaError | None]
) -> list[tuple[ConfigResource, KafkaError | None]]:
    """One result for each resource of the request, in its order."""
    return [(resource_of(resource), results[resource_of(resource)]) for resource in request.resources]
