"""Decides which partitions of a Fetch the client may read, with every request, also for partitions of its session."""

from odradek.broker.apis.authorization import AllowedTopics
from odradek.broker.apis.fetch_reading import Reader
from odradek.broker.fetch_sessions import FetchContext, FetchTarget
from odradek.broker.ports import BrokerPort
from odradek.core.security.access import Access
from odradek.core.security.resources import CLUSTER_NAME, Operation, ResourceType


def withhold_denied(fetch: FetchContext, reader: Reader, access: Access, broker: BrokerPort) -> None:
    """Moves the partitions that the client may not read to `fetch.denied`: they are neither read nor waited for.

    A follower may read all partitions or none. Unknown topic IDs stay: there is no name to check.
    """
    if reader.follower is not None:
        if not access.allows(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
            fetch.targets, fetch.denied = [], fetch.targets
        return
    topics = AllowedTopics(access, Operation.READ)
    allowed: list[FetchTarget] = []
    denied: list[FetchTarget] = []
    for target in fetch.targets:
        name = _name(target, broker, by_id=fetch.uses_topic_ids)
        (allowed if name is None or name in topics else denied).append(target)
    if denied:
        fetch.targets, fetch.denied = allowed, denied


def _name(target: FetchTarget, broker: BrokerPort, *, by_id: bool) -> str | None:
    if target.topic or not by_id:
        return target.topic
    known = broker.image.topics_by_id.get(target.key.topic_id)
    return None if known is None else known.name
