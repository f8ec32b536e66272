"""Several clients that change metadata at once, and remember what they were told.

Each has topics of its own, so that what must be there in the end follows from its own answers alone: what was
acknowledged stands, what was refused or asked for in vain for too long may stand or not, and nothing comes back.
"""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from odradek.base.errors import ErrorCode, KafkaError
from odradek.client.address import Address
from odradek.client.admin import Admin, Resource, ResourceType
from odradek.client.cluster import Cluster
from odradek.client.connection import BuildRequest
from odradek.client.errors import ClientError
from odradek.wire.schemas import Message

SETTING = "retention.ms"
FIRST_VALUE = 1_000_000
PAUSE_S = 0.02


@dataclass
class Told:
    """What one client knows of the cluster from its own answers."""

    present: set[str] = field(default_factory=set)
    absent: set[str] = field(default_factory=set)
    unknown: set[str] = field(default_factory=set)
    """Asked for without an answer: it may have happened, or happen yet."""
    values: dict[str, set[str]] = field(default_factory=dict)
    """Topic -> values of its setting that may be found: one, if nothing was asked for in vain."""
    acknowledged: int = 0
    surprises: list[str] = field(default_factory=list)


class _Loyal(Cluster):
    """Stays with its broker as long as that one answers, whichever one Metadata names for changes."""

    def send_to_controller(self, api_key: int, build: BuildRequest) -> Message:
        return self.send_to_any(api_key, build)


class _Client:
    def __init__(self, name: str, addresses: Sequence[Address], stop: threading.Event, timeout_s: float) -> None:
        self.name = name
        self.thread = threading.Thread(target=self._run, name=name)
        self.told = Told()
        self._cluster = _Loyal(addresses, client_id=name, timeout_s=timeout_s)
        self._admin = Admin(self._cluster)
        self._stop_wanted = stop
        self._numbers = 0

    def _run(self) -> None:
        with self._cluster:
            keeper = self._new_name()
            self._create(keeper)
            while not self._stop_wanted.is_set():
                self._one_round(keeper)
                if keeper in self.told.unknown or len(self.told.values.get(keeper, ())) > 1:
                    keeper = self._new_name()
                    self._create(keeper)

    def _one_round(self, keeper: str) -> None:
        passing = self._new_name()
        self._create(passing)
        self._alter(keeper)
        if self._numbers % 2 and passing in self.told.present:
            self._delete(passing)

    def _new_name(self) -> str:
        self._numbers += 1
        return f"{self.name}-{self._numbers}"

    def _create(self, topic: str) -> None:
        outcome = self._attempt(
            lambda: self._admin.create_topic(topic, partitions=1, replication_factor=1),
            done_already=ErrorCode.topic_already_exists,
        )
        (self.told.present if outcome else self.told.unknown).add(topic)

    def _delete(self, topic: str) -> None:
        self.told.present.remove(topic)
        outcome = self._attempt(
            lambda: self._admin.delete_topic(topic), done_already=ErrorCode.unknown_topic_or_partition
        )
        (self.told.absent if outcome else self.told.unknown).add(topic)

    def _alter(self, topic: str) -> None:
        if topic not in self.told.present:
            return
        value = str(FIRST_VALUE + self._numbers)
        outcome = self._attempt(
            lambda: self._admin.alter_configs(Resource(ResourceType.TOPIC, topic), changes={SETTING: value}),
            done_already=None,
        )
        self.told.values[topic] = {value} if outcome else self.told.values.get(topic, set()) | {value}

    def _attempt(self, change: Callable[[], None], *, done_already: ErrorCode | None) -> bool:
        """False: nobody knows what came of it."""
        time.sleep(PAUSE_S)
        try:
            change()
        except KafkaError as error:
            # The answer was lost with the node that should have given it, and the change was asked for again.
            if error.code is not done_already:
                self.told.surprises.append(f"{self.name}: {error}")
                return False
        except ClientError:
            return False
        self.told.acknowledged += 1
        return True


class MetadataLoad:
    """A context manager: the clients run inside it. Afterwards `told` is what each of them knows."""

    def __init__(self, addresses: Sequence[Address], clients: int = 3, *, timeout_s: float = 30.0) -> None:
        self._stop = threading.Event()
        self._clients = []
        for number in range(clients):
            # Each begins with another node.
            turned = [*addresses[number % len(addresses) :], *addresses[: number % len(addresses)]]
            self._clients.append(_Client(f"load-{number}", turned, self._stop, timeout_s))

    def __enter__(self) -> "MetadataLoad":
        for client in self._clients:
            client.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for client in self._clients:
            client.thread.join()

    @property
    def told(self) -> list[Told]:
        return [client.told for client in self._clients]

    @property
    def acknowledged(self) -> int:
        return sum(told.acknowledged for told in self.told)
