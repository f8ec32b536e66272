"""Creates missing topics with the broker's defaults, and internal topics with their own configs.

It sends an ordinary CreateTopics request to the controller. A failure is only logged: the client retries.
"""

import logging
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Final, NamedTuple, Protocol

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ports import Client, ForwardingPort
from odradek.config.node_config import NodeConfig
from odradek.core.metadata.topic_names import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE
from odradek.wire.apis import ApiKey
from odradek.wire.schemas import Message, schema

logger = logging.getLogger(__name__)

_VERSION: Final = 7
_CONTROLLER_DEFAULT: Final = -1


class Creator(Protocol):
    """The part of a broker that this module needs."""

    @property
    def config(self) -> NodeConfig: ...

    @property
    def controller(self) -> ForwardingPort: ...


class _InternalTopic(NamedTuple):
    """The names of the broker configs with its values, and the configs with fixed values."""

    partitions: str
    replication_factor: str
    configs: Mapping[str, str]
    fixed_configs: Mapping[str, str]


_INTERNAL: Final[Mapping[str, _InternalTopic]] = {
    CONSUMER_OFFSETS: _InternalTopic(
        "offsets.topic.num.partitions",
        "offsets.topic.replication.factor",
        {"segment.bytes": "offsets.topic.segment.bytes"},
        {"cleanup.policy": "compact", "compression.type": "producer"},
    ),
    TRANSACTION_STATE: _InternalTopic(
        "transaction.state.log.num.partitions",
        "transaction.state.log.replication.factor",
        {
            "min.insync.replicas": "transaction.state.log.min.isr",
            "segment.bytes": "transaction.state.log.segment.bytes",
        },
        {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "unclean.leader.election.enable": "false",
        },
    ),
    SHARE_GROUP_STATE: _InternalTopic(
        "share.coordinator.state.topic.num.partitions",
        "share.coordinator.state.topic.replication.factor",
        {
            "min.insync.replicas": "share.coordinator.state.topic.min.isr",
            "segment.bytes": "share.coordinator.state.topic.segment.bytes",
        },
        {"cleanup.policy": "delete", "compression.type": "producer", "retention.ms": "-1"},
    ),
}


async def create_topics(names: Sequence[str], client: Client | None, broker: "Creator") -> None:
    """On behalf of a client, or of the broker itself if `client` is None."""
    request = schema(ApiKey.CREATE_TOPICS, _VERSION).new(
        "CreateTopicsRequest",
        topics=tuple(_creatable_topic(name, broker.config) for name in names),
        timeout=timedelta(milliseconds=broker.config.effective_number("request.timeout.ms")),
        validate_only=False,
    )
    try:
        if client is None:
            response = await broker.controller.handle(ApiKey.CREATE_TOPICS, _VERSION, request)
        else:
            response = await broker.controller.forward(client, ApiKey.CREATE_TOPICS, _VERSION, request)
    except KafkaError as error:
        logger.warning("Auto-creation of topics %s failed: %s", ", ".join(names), error)
        return
    for topic in response.topics:
        # Another request may have created it.
        if topic.error_code not in (ErrorCode.none, ErrorCode.topic_already_exists):
            rejection = KafkaError(topic.error_code, topic.error_message)
            logger.warning("Auto-creation of topic %s failed: %s", topic.name, rejection, extra={"topic": topic.name})


def _creatable_topic(name: str, config: NodeConfig) -> Message:
    internal = _INTERNAL.get(name)
    if internal is not None:
        partitions = config.effective_number(internal.partitions)
        replication_factor = config.effective_number(internal.replication_factor)
        configs = {key: str(config.effective_number(source)) for key, source in internal.configs.items()}
        return _topic(name, partitions, replication_factor, configs | dict(internal.fixed_configs))
    return _topic(
        name,
        config.num_partitions if "num.partitions" in config.values else _CONTROLLER_DEFAULT,
        config.default_replication_factor if "default.replication.factor" in config.values else _CONTROLLER_DEFAULT,
        {},
    )


def _topic(name: str, partitions: int, replication_factor: int, configs: Mapping[str, str]) -> Message:
    messages = schema(ApiKey.CREATE_TOPICS, _VERSION)
    return messages.new(
        "CreatableTopic",
        name=name,
        num_partitions=partitions,
        replication_factor=replication_factor,
        assignments=(),
        configs=tuple(messages.new("CreatableTopicConfig", name=key, value=value) for key, value in configs.items()),
    )
