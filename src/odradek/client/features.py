"""The finalized features of the cluster and their levels."""

from odradek.client.admin import raise_for_error
from odradek.client.cluster import Cluster
from odradek.wire.apis import ApiKey
from odradek.wire.schemas import Message, Schema


def finalized_features(cluster: Cluster) -> dict[str, int]:
    """Return the levels by name; empty if the broker is too old to report them."""
    response = cluster.retry("describing features", lambda: cluster.send_to_any(ApiKey.API_VERSIONS, _request))
    raise_for_error(response)
    return {one.name: one.max_version_level for one in getattr(response, "finalized_features", ())}


def _request(chosen: Schema) -> Message:
    return chosen.new("ApiVersionsRequest", client_software_name="odradek", client_software_version="0")
