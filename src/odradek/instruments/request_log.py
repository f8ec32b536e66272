"""Whose requests are written down, on demand: everybody's, those of some clients, or those that name some topics.

One for the process, as its loggers are. While nobody asks for it, it costs requests nothing: whoever serves them is
told when that changes.
"""

import weakref
from collections.abc import Callable
from typing import Final

LOGGER: Final = "kafka.request.logger"
"""Kafka's name of it. At DEBUG every request is written."""
OF_CLIENT: Final = f"{LOGGER}.client."
OF_TOPIC: Final = f"{LOGGER}.topic."
CHOSEN_MAX: Final = 100


class RequestLog:
    def __init__(self) -> None:
        self.everybody = False
        self.clients: frozenset[str] = frozenset()
        self.topics: frozenset[str] = frozenset()
        self._told: Final[list[weakref.WeakMethod[Callable[[], None]]]] = []

    @property
    def is_on(self) -> bool:
        return self.everybody or bool(self.clients) or bool(self.topics)

    def when_switched(self, told: Callable[[], None]) -> None:
        """`told`, a method, is called when `is_on` has changed, for as long as its object lives."""
        self._told.append(weakref.WeakMethod(told))

    def choose(self, everybody: bool, clients: frozenset[str], topics: frozenset[str]) -> None:
        was_on = self.is_on
        self.everybody, self.clients, self.topics = everybody, clients, topics
        if self.is_on != was_on:
            self._told[:] = [one for one in self._told if one() is not None]
            for one in self._told:
                if told := one():
                    told()


REQUEST_LOG: Final = RequestLog()
