"""Limits of what clients can make a node log: without a login, a client may fail any number of times per second."""

import logging
from typing import Final

LOGGED_PER_SECOND_MAX: Final = 100


class LogLimit:
    """Counts the messages of one kind per second."""

    def __init__(self) -> None:
        self._second = 0
        self._logged = 0
        self._omitted = 0

    def take_omitted(self, second: int) -> int:
        """How many messages were omitted before this second, once."""
        if second == self._second:
            return 0
        omitted, self._second, self._logged, self._omitted = self._omitted, second, 0, 0
        return omitted

    def admits(self) -> bool:
        """Whether the next message may be logged."""
        if self._logged >= LOGGED_PER_SECOND_MAX:
            self._omitted += 1
            return False
        self._logged += 1
        return True


class LimitedMessages(logging.Filter):
    """Of the messages of one logger at INFO and WARNING. DEBUG has no limit, and an ERROR is never omitted."""

    def __init__(self) -> None:
        super().__init__()
        self._limit: Final = LogLimit()

    def filter(self, record: logging.LogRecord) -> bool:
        if not logging.INFO <= record.levelno < logging.ERROR:
            return True
        omitted = self._limit.take_omitted(int(record.created))
        if omitted:
            logging.getLogger(record.name).info("Further messages not logged: count=%d", omitted)
        return self._limit.admits()
