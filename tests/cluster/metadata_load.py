"""Several clients that change metadata concurrently and record which changes were acknowledged.

Each client has its own topics, so its own responses determine the expected metadata: acknowledged changes must be
present, failed or timed-out changes may be present, and deleted topics must not reappear.
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
class ExpectedMetadata:
    """The metadata that one client expects, from the responses to its own requests."""

    present: set[str] = field(default_factory=set)
    absent: set[str] = field(default_factory=set)
    unknown: set[str] = field(default_factory=set)
    """Topics with a request that got no response: the change may have been applied, or may be applied later."""
    values: dict[str, set[str]] = field(default_factory=dict)
    """Topic -> possible values of its setting: exactly one, if every request was acknowledged."""
    acknowledged: int = 0
    surprises: list[str] = field(default_factory=list)


class _StickyCluster(Cluster):
    """Sends changes to the connected broker while it responds, instead of the controller that Metadata names."""

    def send_to_controller(self, api_key: int, build: BuildRequest) -> Message:
        return self.send_to_any(api_key, build)


class _Client:
    def __init__(self, name: str, addresses: Sequence[Address], stop: threading.Event, timeout_s: float) -> None:
        self.name = name
        self.thread = threading.Thread(target=self._run, name=name)
        self.expected = ExpectedMetadata()
        self._cluster = _StickyCluster(addresses, client_id=name, timeout_s=timeout_s)
        self._admin = Admin(self._cluster)
        self._stop_wanted = stop
        self._numbers = 0

    def _run(self) -> None:
        with self._cluster:
            keeper = self._new_name()
            self._create(keeper)
            while not self._stop_wanted.is_set():
                self._one_round(keeper)
                if keeper in self.expected.unknown or len(self.expected.values.get(keeper, ())) > 1:
                    keeper = self._new_name()
                    self._create(keeper)

    def _one_round(self, keeper: str) -> None:
        passing = self._new_name()
        self._create(passing)
        self._alter(keeper)
        if self._numbers % 2 and passing in self.expected.present:
            self._delete(passing)

    def _new_name(self) -> str:
        self._numbers += 1
        return f"{self.name}-{self._numbers}"

    def _create(self, topic: str) -> None:
        outcome = self._attempt(
            lambda: self._admin.create_topic(topic, partitions=1, replication_factor=1),
            already_done=ErrorCode.topic_already_exists,
        )
        (self.expected.present if outcome else self.expected.unknown).add(topic)

    def _delete(self, topic: str) -> None:
        self.expected.present.remove(topic)
        outcome = self._attempt(
            lambda: self._admin.delete_topic(topic), already_done=ErrorCode.unknown_topic_or_partition
        )
        (self.expected.absent if outcome else self.expected.unknown).add(topic)

    def _alter(self, topic: str) -> None:
        if topic not in self.expected.present:
            return
        value = str(FIRST_VALUE + self._numbers)
        outcome = self._attempt(
            lambda: self._admin.alter_configs(Resource(ResourceType.TOPIC, topic), changes={SETTING: value}),
            already_done=None,
        )
        self.expected.values[topic] = {value} if outcome else self.expected.values.get(topic, set()) | {value}

    def _attempt(self, change: Callable[[], None], *, already_done: ErrorCode | None) -> bool:
        """Return False if the outcome is unknown."""
        time.sleep(PAUSE_S)
        try:
            change()
        except KafkaError as error:
            # The first response was lost with its node; the retried request found the change already applied.
            if error.code is not already_done:
                self.expected.surprises.append(f"{self.name}: {error}")
                return False
        except ClientError:
            return False
        self.expected.acknowledged += 1
        return True


class MetadataLoad:
    """A context manager that runs the clients. Afterwards `expected` has the metadata that each client expects."""

    def __init__(self, addresses: Sequence[Address], clients: int = 3, *, timeout_s: float = 30.0) -> None:
        self._stop = threading.Event()
        self._clients = []
        for number in range(clients):
            # Each client starts with a different node.
            rotated = [*addresses[number % len(addresses) :], *addresses[: number % len(addresses)]]
            self._clients.append(_Client(f"load-{number}", rotated, self._stop, timeout_s))

    def __enter__(self) -> "MetadataLoad":
        for client in self._clients:
            client.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for client in self._clients:
            client.thread.join()

    @property
    def expected(self) -> list[ExpectedMetadata]:
        return [client.expected for client in self._clients]

    @property
    def acknowledged(self) -> int:
        return sum(expected.acknowledged for expected in self.expected)
