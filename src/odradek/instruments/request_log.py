"""Whose requests are written down, on demand: everybody's, those of some clients, or those that name some topics.

One for the process, as its loggers are. While nobody asks for it, it costs requests nothing: whoever serves them is
told when that changes.
"""

from typing import Final, Protocol
from weakref import WeakSet

LOGGER: Final = "kafka.request.logger"
"""Kafka's name of it. At DEBUG every request is written."""
OF_CLIENT: Final = f"{LOGGER}.client."
OF_TOPIC: Final = f"{LOGGER}.topic."
CHOSEN_MAX: Final = 100


class Server(Protocol):
    def requests_are_logged(self) -> None:
        """From now on, or not any more: `is_on` has changed."""


class RequestLog:
    def __init__(self) -> None:
        self.everybody = False
        self.clients: frozenset[str] = frozenset()
        self.topics: frozenset[str] = frozenset()
        self._servers: Final[WeakSet[Server]] = WeakSet()

    @property
    def is_on(self) -> bool:
        return self.everybody or bool(self.clients) or bool(self.topics)

    def tell(self, server: Server) -> None:
        """For as long as it lives."""
        self._servers.add(server)

    def choose(self, everybody: bool, clients: frozenset[str], topics: frozenset[str]) -> None:
        was_on = self.is_on
        self.everybody, self.clients, self.topics = everybody, clients, topics
        if self.is_on != was_on:
            for server in list(self._servers):
                server.requests_are_logged()


REQUEST_LOG: Final = RequestLog()
