"""Which features the cluster has finalized, and at which level."""

from odradek.client.admin import raise_refusal
from odradek.client.cluster import Cluster
from odradek.wire.apis import ApiKey
from odradek.wire.schemas import Message, Schema


def finalized_features(cluster: Cluster) -> dict[str, int]:
    """Empty if the broker is too old to say."""
    response = cluster.retry("asking for features", lambda: cluster.ask_any(ApiKey.API_VERSIONS, _request))
    raise_refusal(response)
    return {one.name: one.max_version_level for one in getattr(response, "finalized_features", ())}


def _request(chosen: Schema) -> Message:
    return chosen.new("ApiVersionsRequest", client_software_name="odradek", client_software_version="0")
