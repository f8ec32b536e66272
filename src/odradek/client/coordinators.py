"""Finds the coordinators of groups and transactional ids, and sends requests to them.

Coordinators move and load; meanwhile requests are retried until the cluster's deadline.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple, TypeVar

from odradek.base.errors import KafkaError
from odradek.client.address import Address
from odradek.client.admin import raise_for_error
from odradek.client.cluster import Cluster
from odradek.client.errors import ClientError
from odradek.wire.apis import ApiKey
from odradek.wire.schemas import Message, Schema

T = TypeVar("T")


class CoordinatorType(IntEnum):
    GROUP = 0
    TRANSACTION = 1


class Coordinator(NamedTuple):
    node_id: int
    address: Address

    def __str__(self) -> str:
        return f"{self.address} ({self.node_id})"


# The result of a coordinator for each key, or its error.
Results = Mapping[str, T | KafkaError]


def query_coordinators(
    cluster: Cluster,
    kind: CoordinatorType,
    keys: Iterable[str],
    what: str,
    query: Callable[[Coordinator, Sequence[str]], Results[T]],
    *,
    timeout_s: float | None = None,
) -> dict[str, T | KafkaError]:
    """Run `query` for each key at its coordinator. Retriable errors are retried until the deadline."""
    unique_keys = tuple(dict.fromkeys(keys))
    found: dict[str, T | KafkaError] = {}

    def attempt() -> dict[str, T | KafkaError]:
        retriable: KafkaError | None = None
        left = [key for key in unique_keys if key not in found]
        for coordinator, its_keys in _by_coordinator(cluster, kind, left).items():
            for key, result in query(coordinator, its_keys).items():
                if isinstance(result, KafkaError) and result.code.retriable:
                    retriable = result
                else:
                    cluster.identify(result)
                    found[key] = result
        if retriable is not None:
            raise retriable
        return found

    return cluster.retry(what, attempt, timeout_s=timeout_s)


def find_coordinator(cluster: Cluster, kind: CoordinatorType, key: str) -> Coordinator:
    """Look it up once. Raises KafkaError, also for retriable errors."""
    (found,) = _by_coordinator(cluster, kind, (key,))
    return found


def query_every_broker(
    cluster: Cluster, what: str, query: Callable[[int], Sequence[T]], on_response: Callable[[int], None]
) -> list[T]:
    """Collect the results of all brokers about what they coordinate.

    If a broker fails or is loading, all brokers are queried again, because its coordinators may have moved to a broker
    that was queried before.
    """

    def attempt() -> list[T]:
        found: list[T] = []
        for node_id in sorted(cluster.layout().brokers):
            found += query(node_id)
            on_response(1)
        return found

    return cluster.retry(what, attempt)


def raise_if_error(result: T | KafkaError) -> T:
    if isinstance(result, KafkaError):
        raise result
    return result


def result_or_error(result: Message, read: Callable[[], T], name: str | None = None) -> T | KafkaError:
    """Return the error of a part of a response, or the result of `read`. `name` as in `raise_for_error`."""
    try:
        raise_for_error(result, name)
    except KafkaError as error:
        return error
    return read()


def require_part(chosen: Schema, class_name: str) -> None:
    """Raise ClientError if the broker's version of the API does not have this part yet."""
    if not chosen.knows(class_name):
        raise ClientError("The broker is too old: Apache Kafka 3.0 is the oldest supported version")


def _by_coordinator(cluster: Cluster, kind: CoordinatorType, keys: Sequence[str]) -> dict[Coordinator, list[str]]:
    if not keys:
        return {}

    def build(chosen: Schema) -> Message:
        require_part(chosen, "Coordinator")
        return chosen.new("FindCoordinatorRequest", key_type=int(kind), coordinator_keys=tuple(keys))

    found: dict[Coordinator, list[str]] = {}
    for one in cluster.send_to_any(ApiKey.FIND_COORDINATOR, build).coordinators:
        raise_for_error(one)
        found.setdefault(Coordinator(one.node_id, Address(one.host, one.port)), []).append(one.key)
    return found
