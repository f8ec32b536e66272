"""Selects which requests are logged: all, those of some clients, or those for some topics.

There is one per process, as for loggers. Disabled, it costs nothing per request: dispatchers are notified when it is
enabled or disabled.
"""

from typing import Final, Protocol
from weakref import WeakSet

LOGGER: Final = "kafka.request.logger"
"""Kafka's name for the logger. At DEBUG it logs every request."""
OF_CLIENT: Final = f"{LOGGER}.client."
OF_TOPIC: Final = f"{LOGGER}.topic."
SELECTED_MAX: Final = 100


class RequestLogListener(Protocol):
    def on_request_log_changed(self) -> None:
        """`is_on` has changed."""


class RequestLog:
    def __init__(self) -> None:
        self.is_for_all_clients = False
        self.clients: frozenset[str] = frozenset()
        self.topics: frozenset[str] = frozenset()
        self._listeners: Final[WeakSet[RequestLogListener]] = WeakSet()

    @property
    def is_on(self) -> bool:
        return self.is_for_all_clients or bool(self.clients) or bool(self.topics)

    def add_listener(self, listener: RequestLogListener) -> None:
        """Does not keep the listener alive."""
        self._listeners.add(listener)

    def select(self, is_for_all_clients: bool, clients: frozenset[str], topics: frozenset[str]) -> None:
        was_on = self.is_on
        self.is_for_all_clients, self.clients, self.topics = is_for_all_clients, clients, topics
        if self.is_on != was_on:
            for listener in list(self._listeners):
                listener.on_request_log_changed()


REQUEST_LOG: Final = RequestLog()
