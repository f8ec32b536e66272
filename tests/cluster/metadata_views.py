"""Compares the metadata of all brokers with each other and with the changes that clients saw acknowledged."""

from collections.abc import Iterable
from typing import Any

from odradek.base.errors import KafkaError
from odradek.client.admin import ResourceType
from odradek.client.cluster import Cluster
from odradek.client.errors import ClientError
from odradek.wire.apis import ApiKey
from odradek.wire.schemas import Message, Schema
from tests.cluster.metadata_load import SETTING, ExpectedMetadata
from tests.cluster.real_cluster import RealCluster, wait_for

View = dict[str, tuple[Any, ...]]
"""Topic -> its id, its partitions, its setting."""


def view_of(cluster: RealCluster, node_id: int) -> View:
    with cluster.client(node_id) as client:
        topics = client.layout(None).topics
        settings = _settings(client, sorted(topics))
    return {name: (topic.id, topic.partitions, settings.get(name)) for name, topic in topics.items()}


def _settings(client: Cluster, topics: list[str]) -> dict[str, str]:
    def build(chosen: Schema) -> Message:
        resources = tuple(
            chosen.new(
                "DescribeConfigsResource",
                resource_type=int(ResourceType.TOPIC),
                resource_name=topic,
                configuration_keys=(SETTING,),
            )
            for topic in topics
        )
        return chosen.new(
            "DescribeConfigsRequest", resources=resources, include_synonyms=False, include_documentation=False
        )

    response = client.send_to_any(ApiKey.DESCRIBE_CONFIGS, build)
    return {result.resource_name: result.configs[0].value for result in response.results if result.configs}


def assert_equal_everywhere(cluster: RealCluster, seconds_max: float = 15.0) -> View:
    """Wait until all brokers have the same metadata and return it."""
    views: dict[int, View] = {}

    def are_equal() -> bool:
        try:
            for node in cluster.brokers:
                views[node.node_id] = view_of(cluster, node.node_id)
        except (ClientError, KafkaError):
            return False
        first, *others = views.values()
        return all(other == first for other in others)

    try:
        wait_for("the same metadata everywhere", are_equal, seconds_max)
    except AssertionError:
        names = {node_id: sorted(view) for node_id, view in views.items()}
        differing = [
            (name, {node_id: view.get(name) for node_id, view in views.items()})
            for name in sorted(set().union(*names.values()))
            if len({repr(view.get(name)) for view in views.values()}) > 1
        ]
        raise AssertionError(f"brokers differ in {len(differing)} topics: {differing[:3]}") from None
    return next(iter(views.values()))


def assert_holds(view: View, expectations: Iterable[ExpectedMetadata]) -> None:
    """Assert that acknowledged topics and settings are present and that deleted topics are absent."""
    for expected in expectations:
        assert not expected.surprises, expected.surprises[:5]
        lost = expected.present - view.keys()
        assert not lost, f"acknowledged topics are gone: {sorted(lost)[:5]}"
        back = expected.absent & view.keys()
        assert not back, f"deleted topics are back: {sorted(back)[:5]}"
        for topic, values in expected.values.items():
            if topic in expected.present:
                assert view[topic][2] in values, f"{topic}: {SETTING} is {view[topic][2]}, acknowledged was {values}"
