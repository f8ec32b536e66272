"""A client of one cluster: bootstrap, metadata, one connection per broker, and retries until a deadline.

Knows how to reach the right broker, not what is requested there.
"""

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from types import TracebackType
from typing import Final, TypeVar

from odradek.base.errors import ErrorCode, KafkaError
from odradek.client.address import Address
from odradek.client.connection import BuildRequest, Connection
from odradek.client.errors import ConnectionFailed, NotYet, TimedOut, UnknownTopic, Unreachable
from odradek.client.layout import ClusterLayout, TopicLayout, layout_from
from odradek.client.permissions import NotAuthorized, error_of
from odradek.client.security import NOTHING, Security
from odradek.core.security.resources import Operation, ResourceType
from odradek.wire.apis import ApiKey
from odradek.wire.schemas import Message, Schema

T = TypeVar("T")


_FIRST_PAUSE_S: Final = 0.02
_LONGEST_PAUSE_S: Final = 0.5


class Cluster:
    """Not thread-safe: one request is in flight at a time."""

    def __init__(
        self,
        bootstrap: Sequence[Address],
        *,
        client_id: str = "odradek",
        timeout_s: float = 10.0,
        security: Security = NOTHING,
        is_known: bool = False,
    ) -> None:
        """`is_known`: the bootstrap addresses are known to be right, so connection failures are retried."""
        self.bootstrap: Final = tuple(bootstrap)
        self.timeout_s: Final = timeout_s
        self._client_id: Final = client_id
        self.security: Final = security
        self._connections: dict[Address, Connection] = {}
        self._layout: ClusterLayout | None = None
        self._was_reached = is_known

    def __enter__(self) -> "Cluster":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.identify(error)
        self.close()

    def identify(self, error: object) -> None:
        """Add this client's principal to an authorization error, for its explanation."""
        if isinstance(error, NotAuthorized) and error.principal is None:
            error.principal = self.security.principal

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def layout(self, topics: Iterable[str] | None = ()) -> ClusterLayout:
        """Request fresh Metadata for the given topics, for all topics (None), or for the brokers only."""
        names = None if topics is None else tuple(dict.fromkeys(topics))

        def build(chosen: Schema) -> Message:
            requested = None if names is None else tuple(_metadata_topic(chosen, name) for name in names)
            return chosen.new(
                "MetadataRequest",
                topics=requested,
                allow_auto_topic_creation=False,
                include_cluster_authorized_operations=False,
                include_topic_authorized_operations=False,
            )

        self._layout = layout_from(self.send_to_any(ApiKey.METADATA, build))
        return self._layout

    def topics(self, names: Sequence[str], *, purpose: Operation = Operation.DESCRIBE) -> dict[str, TopicLayout]:
        """Return the layouts of these topics. Raises UnknownTopic for the first that does not exist.

        `purpose` is what the caller is going to do. If a topic is hidden from the client, the error names it.
        """
        layout = self.layout(names)
        for name, code in layout.errors.items():
            if code in (ErrorCode.unknown_topic_or_partition, ErrorCode.invalid_topic_exception):
                raise UnknownTopic(name, sorted(self.layout(None).topics))
            error = error_of(code, f"topic {name!r}", ApiKey.METADATA, name)
            if isinstance(error, NotAuthorized):
                error = error.for_purpose(purpose, ResourceType.TOPIC, name)
            raise error
        return layout.topics

    def connection(self, address: Address) -> Connection:
        """Return the connection to this broker, and open it if necessary. Raises ConnectionFailed."""
        found = self._connections.get(address)
        if found is None:
            found = self._connections[address] = Connection(
                address, client_id=self._client_id, timeout_s=self.timeout_s, security=self.security
            )
        return found

    def forget(self, address: Address) -> None:
        """Drop a failed connection; the next request opens a new one."""
        dropped = self._connections.pop(address, None)
        if dropped is not None:
            dropped.close()

    def send_to(
        self, address: Address, api_key: int, build: BuildRequest, *, highest: int | None = None, wait_s: float = 0.0
    ) -> Message:
        """Send one request to one broker. `wait_s` is the time that the request lets the broker wait."""
        connection = self.connection(address)
        try:
            response = connection.request(api_key, build, timeout_s=self.timeout_s + wait_s, highest=highest)
        except ConnectionFailed:
            self.forget(address)
            raise
        self._was_reached = True
        return response

    def send_to_any(self, api_key: int, build: BuildRequest, *, highest: int | None = None) -> Message:
        """Try brokers in turn until one responds: known ones first, then the bootstrap list. Raises Unreachable."""
        failures: list[ConnectionFailed] = []
        for address in self._candidates():
            try:
                return self.send_to(address, api_key, build, highest=highest)
            except ConnectionFailed as error:
                failures.append(error)
        raise Unreachable(failures)

    def send_to_controller(self, api_key: int, build: BuildRequest) -> Message:
        """Send to the broker that Metadata names as controller: under KRaft any broker, which forwards the request."""
        layout = self._layout or self.layout()
        named = layout.brokers.get(layout.controller_id)
        if named is None:
            return self.send_to_any(api_key, build)
        return self.send_to(named.address, api_key, build)

    def send_to_broker(
        self, node_id: int, api_key: int, build: BuildRequest, *, highest: int | None = None, wait_s: float = 0.0
    ) -> Message:
        return self.send_to(self.address_of(node_id), api_key, build, highest=highest, wait_s=wait_s)

    def address_of(self, node_id: int) -> Address:
        """Raise KafkaError(BROKER_NOT_AVAILABLE) for a broker that is not in Metadata."""
        layout = self._layout or self.layout()
        node = layout.brokers.get(node_id)
        if node is None:
            raise KafkaError(ErrorCode.broker_not_available, f"broker {node_id} is not online")
        return node.address

    def retry(
        self,
        what: str,
        action: Callable[[], T],
        *,
        timeout_s: float | None = None,
        final: Collection[ErrorCode] = (),
    ) -> T:
        """Return the result of `action`, retried after retriable errors, with growing pauses, until a deadline.

        If no bootstrap address has ever responded, it fails at once: the list is more likely wrong than slow. `final`
        are error codes that are not retried here although they are retriable.
        """
        limit_s = self.timeout_s if timeout_s is None else timeout_s
        deadline = time.monotonic() + limit_s
        pause_s = _FIRST_PAUSE_S
        while True:
            try:
                return action()
            except (ConnectionFailed, Unreachable, NotYet, KafkaError) as error:
                self.identify(error)
                if not self._is_retriable(error) or (isinstance(error, KafkaError) and error.code in final):
                    raise
                if time.monotonic() + pause_s >= deadline:
                    code = error.code if isinstance(error, KafkaError) else None
                    raise TimedOut(what, limit_s, str(error), code) from None
            time.sleep(pause_s)
            pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
            self._layout = None

    def _is_retriable(self, error: Exception) -> bool:
        if isinstance(error, KafkaError):
            return error.code.retriable
        return self._was_reached or isinstance(error, NotYet)

    def _candidates(self) -> list[Address]:
        known = [node.address for node in self._layout.brokers.values()] if self._layout else []
        connected = list(self._connections)
        return list(dict.fromkeys((*connected, *known, *self.bootstrap)))


def _metadata_topic(chosen: Schema, name: str) -> Message:
    return chosen.new("MetadataRequestTopic", topic_id=None, name=name)
