"""Who coordinates a group or a transactional id: found over the wire, and asked there.

Coordinators move and load; those who are asked in the meantime are asked again until the cluster's deadline.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple, TypeVar

from odradek.base.errors import KafkaError
from odradek.client.address import Address
from odradek.client.admin import raise_refusal
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


# What a coordinator says of each key: an answer, or why there is none.
Answers = Mapping[str, T | KafkaError]


def ask_coordinators(
    cluster: Cluster,
    kind: CoordinatorType,
    keys: Iterable[str],
    what: str,
    ask: Callable[[Coordinator, Sequence[str]], Answers[T]],
    *,
    timeout_s: float | None = None,
) -> dict[str, T | KafkaError]:
    """What `ask` hears of each key from its coordinator. Refusals that may pass are none yet, until the deadline."""
    wanted = tuple(dict.fromkeys(keys))
    found: dict[str, T | KafkaError] = {}

    def attempt() -> dict[str, T | KafkaError]:
        passing: KafkaError | None = None
        left = [key for key in wanted if key not in found]
        for coordinator, its_keys in _by_coordinator(cluster, kind, left).items():
            for key, answer in ask(coordinator, its_keys).items():
                if isinstance(answer, KafkaError) and answer.code.retriable:
                    passing = answer
                else:
                    found[key] = answer
        if passing is not None:
            raise passing
        return found

    return cluster.retry(what, attempt, timeout_s=timeout_s)


def find_coordinator(cluster: Cluster, kind: CoordinatorType, key: str) -> Coordinator:
    """Asks once. Raises KafkaError, also for what may pass."""
    (found,) = _by_coordinator(cluster, kind, (key,))
    return found


def ask_every_broker(
    cluster: Cluster, what: str, ask: Callable[[int], Sequence[T]], on_answer: Callable[[int], None]
) -> list[T]:
    """What each broker says of what it coordinates. If one goes, or loads, all are asked anew: what it had may be with
    one that was asked before.
    """

    def attempt() -> list[T]:
        found: list[T] = []
        for node_id in sorted(cluster.layout().brokers):
            found += ask(node_id)
            on_answer(1)
        return found

    return cluster.retry(what, attempt)


def raise_if_refused(answer: T | KafkaError) -> T:
    if isinstance(answer, KafkaError):
        raise answer
    return answer


def answer_of(result: Message, read: Callable[[], T]) -> T | KafkaError:
    """What `read` makes of a part of a response, or the refusal that it carries."""
    try:
        raise_refusal(result)
    except KafkaError as error:
        return error
    return read()


def require_part(chosen: Schema, class_name: str) -> None:
    """Raises ClientError if the version that the broker serves has no such part yet."""
    if not chosen.knows(class_name):
        raise ClientError("this broker is older than what can be asked from here: Apache Kafka 3.0 is the oldest")


def _by_coordinator(cluster: Cluster, kind: CoordinatorType, keys: Sequence[str]) -> dict[Coordinator, list[str]]:
    if not keys:
        return {}

    def build(chosen: Schema) -> Message:
        require_part(chosen, "Coordinator")
        return chosen.new("FindCoordinatorRequest", key_type=int(kind), coordinator_keys=tuple(keys))

    found: dict[Coordinator, list[str]] = {}
    for one in cluster.ask_any(ApiKey.FIND_COORDINATOR, build).coordinators:
        raise_refusal(one)
        found.setdefault(Coordinator(one.node_id, Address(one.host, one.port)), []).append(one.key)
    return found
