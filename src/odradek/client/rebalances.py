"""Why groups were called together of late, and how long it kept them: told by their coordinators over HTTP."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from odradek.client.cluster import Cluster
from odradek.client.coordinators import Coordinator
from odradek.client.node_http import NoEndpoint, ask_node

PATH: Final = "/v1/rebalances"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebalance:
    cause: str
    """With the member that it is about."""
    began_ms: int
    ended_ms: int | None
    """None: not yet."""


def last_rebalances(
    cluster: Cluster, coordinators: Iterable[Coordinator], *, timeout_s: float
) -> dict[Coordinator, dict[str, list[Rebalance]]]:
    """By coordinator and group, the oldest first. Coordinators that do not tell are left out."""
    cluster_id = cluster.retry("asking for the cluster's id", cluster.layout).cluster_id
    found = {}
    for one in set(coordinators):
        try:
            answer = ask_node(cluster, cluster_id, one.node_id, one.address.host, PATH, timeout_s=timeout_s)
            found[one] = _parse(answer)
        except NoEndpoint:
            continue
    return found


def _parse(answer: dict[str, Any]) -> dict[str, list[Rebalance]]:
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
            for group in answer["groups"]
        }
    except (ValueError, TypeError, KeyError) as error:
        raise NoEndpoint(f"{PATH} gives what cannot be read: {error!r}") from None
