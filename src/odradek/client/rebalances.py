"""Reads the recent rebalances of groups, with cause and duration, from their coordinators' HTTP endpoints."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from odradek.client.cluster import Cluster
from odradek.client.coordinators import Coordinator
from odradek.client.node_http import NoEndpoint, query_node

PATH: Final = "/v1/rebalances"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebalance:
    cause: str
    """Includes the member that caused it."""
    began_ms: int
    ended_ms: int | None
    """None while it is in progress."""


def last_rebalances(
    cluster: Cluster, coordinators: Iterable[Coordinator], *, timeout_s: float
) -> dict[Coordinator, dict[str, list[Rebalance]]]:
    """Return rebalances by coordinator and group, oldest first. Coordinators without an endpoint are left out."""
    cluster_id = cluster.retry("looking up the cluster ID", cluster.layout).cluster_id
    found = {}
    for one in set(coordinators):
        try:
            response = query_node(cluster, cluster_id, one.node_id, one.address.host, PATH, timeout_s=timeout_s)
            found[one] = _parse(response)
        except NoEndpoint:
            continue
    return found


def _parse(response: dict[str, Any]) -> dict[str, list[Rebalance]]:
    try:
        return {
            str(group["group"]): [
                Rebalance(
                    cause=str(one["cause"]),
                    began_ms=int(one["began_ms"]),
                    ended_ms=None if one["ended_ms"] is None else int(one["ended_ms"]),
                )
                for one in group["rebalances"]
            ]
            for group in response["groups"]
        }
    except (ValueError, TypeError, KeyError) as error:
        raise NoEndpoint(f"invalid response of {PATH}: {error!r}") from None
