"""A client that changes the config of a topic all the time: the last acknowledged change must be in effect."""

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Final, Self

from odradek.base.errors import KafkaError
from odradek.client.admin import Admin, Resource, ResourceType
from odradek.client.cluster import Cluster
from odradek.client.errors import ClientError
from tests.cluster.gaps import Gaps
from tests.cluster.real_cluster import wait_for

SERIES: Final = "metadata"
SETTING: Final = "retention.ms"
FIRST_VALUE: Final = 1_000_000_000
PAUSE_S: Final = 0.1


class MetadataChanges:
    def __init__(self, topic: str, new_client: Callable[[], AbstractContextManager[Cluster]], gaps: Gaps) -> None:
        """`new_client` connects to running brokers only; each change uses a new one."""
        self._resource: Final = Resource(ResourceType.TOPIC, topic)
        self._new_client: Final = new_client
        self._gaps: Final = gaps
        self._stop: Final = threading.Event()
        self._thread: Final = threading.Thread(target=self._run, name="metadata changes", daemon=True)
        self._requested = self._acknowledged = FIRST_VALUE
        self._unknown: Final[set[int]] = set()
        """Without a response: they may be applied, even later than changes that were requested after them."""
        self.count = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def finish(self) -> None:
        self._stop.set()
        self._thread.join()
        possible = {self._acknowledged, *self._unknown}
        wait_for(f"one of {sorted(possible)} as {SETTING}", lambda: self._value() in possible)

    def _value(self) -> int:
        with self._new_client() as client:
            (value,) = Admin(client).configs(self._resource, [SETTING])
        return int(value.value or 0)

    def _run(self) -> None:
        while not self._stop.wait(PAUSE_S):
            self._requested += 1
            try:
                with self._new_client() as client:
                    Admin(client).alter_configs(self._resource, changes={SETTING: str(self._requested)})
            except (ClientError, KafkaError):
                # A broker that stops, or an unknown result: the next change follows at once.
                self._unknown.add(self._requested)
                continue
            self._acknowledged = self._requested
            self.count += 1
            self._gaps.on_response(SERIES)
