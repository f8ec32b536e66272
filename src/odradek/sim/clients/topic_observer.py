"""Describes topics through one broker, over its own connections, also while they change."""

from typing import Final

from odradek.base.errors import ErrorCode
from odradek.core.metadata.image import RESOURCE_TOPIC
from odradek.sim.clients.cluster_client import ClusterClient
from odradek.sim.clients.connection import RequestFailed
from odradek.sim.history import History, View
from odradek.wire.apis import ApiKey
from odradek.wire.schemas import Message, Schema

CONFIG: Final = "retention.ms"
"""The config that admin clients change."""


class TopicObserver:
    def __init__(self, client: ClusterClient, history: History, *, is_current: bool) -> None:
        """`is_current`: whether brokers must show every change that was acknowledged before the request."""
        self._client: Final = client.with_own_connections()
        self._history: Final = history
        self._is_current: Final = is_current

    async def try_to_observe(self, topic: str) -> None:
        try:
            await self.observe(topic)
        except RequestFailed as failure:
            self._client.note(f"cannot describe the topic: {failure}")

    async def observe(self, topic: str) -> None:
        """Queries any broker. Raises RequestFailed."""
        client = self._client
        host, port = client.any_address()
        await self._observe_partitions(topic, host, port)
        await self._observe_config(topic, host, port)

    async def _observe_partitions(self, topic: str, host: str, port: int) -> None:
        client, began = self._client, self._client.now
        found = (await client.describe([topic], await client.connect(host, port)))[topic]
        if found.error_code is ErrorCode.none:
            self._note(topic, host, began, partitions=len(found.partitions))
        elif found.error_code is ErrorCode.unknown_topic_or_partition:
            self._note(topic, host, began)
        else:
            raise RequestFailed(f"no metadata: {found.error_code.name}")

    async def _observe_config(self, topic: str, host: str, port: int) -> None:
        client, began = self._client, self._client.now
        connection = await client.connect(host, port)
        response = await client.send_request(
            connection, ApiKey.DESCRIBE_CONFIGS, lambda chosen: _describe_configs_request(chosen, topic)
        )
        result = response.results[0]
        if result.error_code is ErrorCode.none:
            self._note(topic, host, began, value=next(one.value for one in result.configs if one.name == CONFIG))
        elif result.error_code is ErrorCode.unknown_topic_or_partition:
            self._note(topic, host, began)
        else:
            raise RequestFailed(f"no configs: {result.error_code.name}")

    def _note(
        self, topic: str, broker: str, began: float, *, partitions: int | None = None, value: str | None = None
    ) -> None:
        view = View(
            topic=topic,
            began=began,
            ended=self._client.now,
            exists=partitions is not None or value is not None,
            partitions=partitions,
            value=value,
            broker=broker,
            is_current=self._is_current,
        )
        self._client.note(f"sees {view}")
        self._history.changes.append(view)


def _describe_configs_request(chosen: Schema, topic: str) -> Message:
    resource = chosen.new(
        "DescribeConfigsResource", resource_type=RESOURCE_TOPIC, resource_name=topic, configuration_keys=(CONFIG,)
    )
    return chosen.new(
        "DescribeConfigsRequest", resources=(resource,), include_synonyms=False, include_documentation=False
    )
