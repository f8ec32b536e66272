"""Checks which resources may have configs, with Kafka's error messages."""

import re
from typing import Final

from odradek.base.errors import ErrorCode, KafkaError
from odradek.core.metadata.image import (
    RESOURCE_BROKER,
    RESOURCE_CLIENT_METRICS,
    RESOURCE_GROUP,
    RESOURCE_TOPIC,
    ConfigResource,
)
from odradek.core.metadata.topic_names import why_invalid

_NUMBER: Final = re.compile(r"-?[0-9]{1,10}\Z")


def check_resource_name(resource: ConfigResource) -> None:
    resource_type, name = resource
    if resource_type == RESOURCE_TOPIC:
        if not name:
            raise _invalid_request("Default topic resources are not allowed.")
        if (reason := why_invalid(name)) is not None:
            raise KafkaError(ErrorCode.invalid_topic_exception, reason)
    elif resource_type == RESOURCE_BROKER:
        if name and not _NUMBER.match(name):
            raise _invalid_request("Unable to parse broker name as a base 10 number.")
        if name.startswith("-"):
            raise _invalid_request("Invalid negative broker ID.")
    elif resource_type == RESOURCE_GROUP:
        if not name:
            raise _invalid_request("Default group resources are not allowed.")
    elif resource_type == RESOURCE_CLIENT_METRICS:
        # Kafka accepts them; Odradek does not use them yet.
        raise KafkaError(ErrorCode.invalid_config, "Configs of client metrics are not supported yet.")
    else:
        raise _invalid_request(f"Unknown resource type {resource_type}")


def _invalid_request(message: str) -> KafkaError:
    return KafkaError(ErrorCode.invalid_request, message)
