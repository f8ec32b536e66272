"""An admin client that creates, extends, configures and deletes topics that no other client changes."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from odradek.base.errors import ErrorCode
from odradek.core.metadata.image import RESOURCE_TOPIC
from odradek.sim.clients.cluster_client import ClusterClient, milliseconds
from odradek.sim.clients.connection import RequestFailed
from odradek.sim.clients.topic_observer import CONFIG, TopicObserver
from odradek.sim.history import Change, ChangeKind, History, Outcome
from odradek.wire.apis import ApiKey
from odradek.wire.schemas import Message, Schema

_SET: Final = 0
_PARTITIONS_MAX: Final = 4
_CHANGE_PROBABILITY: Final = 0.8
_OBSERVE_DURING_CHANGE_PROBABILITY: Final = 0.5
_OBSERVE_DURING_CHANGE_SECONDS: Final = 0.01
_OBSERVE_AFTER_CHANGE_PROBABILITY: Final = 0.5

# After these errors the topic is unchanged. After any other error the change may have been made, or may be made later.
_REFUSALS: Final = frozenset(
    {ErrorCode.topic_already_exists, ErrorCode.unknown_topic_or_partition, ErrorCode.invalid_partitions}
)


class Admin:
    def __init__(self, client: ClusterClient, history: History, *, is_single_node: bool) -> None:
        """`is_single_node`: the broker is the controller and forwards no requests."""
        self._client: Final = client
        self._history: Final = history
        self._is_single_node: Final = is_single_node
        self._value = 600_000
        self.is_finishing = False

    async def create(self, topic: str, partitions: int, configs: dict[str, str], replication_factor: int = -1) -> None:
        """Retries until the topic exists."""

        def build(chosen: Schema) -> Message:
            return creation_request(chosen, topic, partitions, configs, replication_factor)

        while True:
            try:
                response = await self._send_request(ApiKey.CREATE_TOPICS, build)
                if response.topics[0].error_code in (ErrorCode.none, ErrorCode.topic_already_exists):
                    return
            except RequestFailed:
                await self._client.back_off()

    async def change_topics(self, topics: Sequence[str], interval_seconds: float, observer: TopicObserver) -> None:
        """Makes random changes, and describes the topics between and during them."""
        random = self._client.random
        while not self.is_finishing:
            await asyncio.sleep(random.expovariate(1 / interval_seconds))
            topic = random.choice(topics)
            if random.random() < _CHANGE_PROBABILITY:
                change = asyncio.ensure_future(self._change(self._random_change(topic)))
                if random.random() < _OBSERVE_DURING_CHANGE_PROBABILITY:
                    # During the change: what is visible now must not disappear later.
                    await asyncio.sleep(random.random() * _OBSERVE_DURING_CHANGE_SECONDS)
                    await observer.try_to_observe(topic)
                await change
            # Often at once: an acknowledged change must be visible.
            if random.random() < _OBSERVE_AFTER_CHANGE_PROBABILITY:
                await observer.try_to_observe(topic)

    def _random_change(self, topic: str) -> Change:
        random = self._client.random
        self._value += 1
        return Change(
            kind=random.choice((*ChangeKind, ChangeKind.CREATE)),
            topic=topic,
            partitions=random.randrange(1, _PARTITIONS_MAX + 1),
            value=str(self._value),
            began=self._client.now,
            may_be_repeated=not self._is_single_node,
        )

    async def _change(self, change: Change) -> None:
        client = self._client
        self._history.changes.append(change)
        client.note(f"requests {change}")
        api_key, build, code_of = _REQUESTS[change.kind]
        try:
            code = code_of(await self._send_request(api_key, lambda chosen: build(chosen, change)))
        except RequestFailed as failure:
            client.note(f"gets no response for {change}: {failure}")
            return
        client.note(f"receives {code.name} for {change}")
        change.reason = code.name
        if code is ErrorCode.none or code in _REFUSALS:
            change.ended = client.now
            change.outcome = Outcome.DONE if code is ErrorCode.none else Outcome.REFUSED

    async def _send_request(self, api_key: int, build: Callable[[Schema], Message]) -> Message:
        client = self._client
        connection = await client.connect_to_any()
        return await client.send_request(connection, api_key, build)


def creation_request(
    chosen: Schema,
    topic: str,
    partitions: int,
    configs: dict[str, str],
    replication_factor: int = -1,
    *,
    validate_only: bool = False,
) -> Message:
    creatable = chosen.new(
        "CreatableTopic",
        name=topic,
        num_partitions=partitions,
        replication_factor=replication_factor,
        assignments=(),
        configs=tuple(chosen.new("CreatableTopicConfig", name=name, value=value) for name, value in configs.items()),
    )
    return chosen.new(
        "CreateTopicsRequest", topics=(creatable,), timeout=milliseconds(1500), validate_only=validate_only
    )


def _create(chosen: Schema, change: Change) -> Message:
    return creation_request(chosen, change.topic, change.partitions, {CONFIG: change.value})


def _delete(chosen: Schema, change: Change) -> Message:
    by_state = chosen.knows("DeleteTopicState")
    return chosen.new(
        "DeleteTopicsRequest",
        topic_names=(change.topic,),
        topics=(chosen.new("DeleteTopicState", name=change.topic, topic_id=None),) if by_state else (),
        timeout=milliseconds(1500),
    )


def _grow(chosen: Schema, change: Change) -> Message:
    topic = chosen.new("CreatePartitionsTopic", name=change.topic, count=change.partitions, assignments=None)
    return chosen.new("CreatePartitionsRequest", topics=(topic,), timeout=milliseconds(1500), validate_only=False)


def _configure(chosen: Schema, change: Change) -> Message:
    config = chosen.new("AlterableConfig", name=CONFIG, config_operation=_SET, value=change.value)
    resource = chosen.new(
        "AlterConfigsResource", resource_type=RESOURCE_TOPIC, resource_name=change.topic, configs=(config,)
    )
    return chosen.new("IncrementalAlterConfigsRequest", resources=(resource,), validate_only=False)


_Request = tuple[int, Callable[[Schema, Change], Message], Callable[[Message], ErrorCode]]

_REQUESTS: Final[dict[ChangeKind, _Request]] = {
    ChangeKind.CREATE: (ApiKey.CREATE_TOPICS, _create, lambda response: response.topics[0].error_code),
    ChangeKind.DELETE: (ApiKey.DELETE_TOPICS, _delete, lambda response: response.responses[0].error_code),
    ChangeKind.GROW: (ApiKey.CREATE_PARTITIONS, _grow, lambda response: response.results[0].error_code),
    ChangeKind.CONFIGURE: (
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        _configure,
        lambda response: response.responses[0].error_code,
    ),
}
