"""Clients cannot fill a disk with log messages."""

import logging
from collections.abc import Iterator

import pytest

from odradek.server import connection, connection_authentication, tls_connection
from odradek.server.log_limits import LOGGED_PER_SECOND_MAX, LimitedMessages


class Collected(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    made = logging.getLogger("limited")
    made.setLevel(logging.DEBUG)
    made.propagate = False
    made.addFilter(limit := LimitedMessages())
    yield made
    made.removeFilter(limit)
    made.handlers.clear()


def at(second: float, logger: logging.Logger, level: int, text: str) -> None:
    fields = {"name": logger.name, "levelno": level, "levelname": "", "msg": text, "created": second}
    logger.handle(logging.makeLogRecord(fields))


def test_messages_beyond_the_limit_are_counted(logger: logging.Logger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: 8.5)
    logger.addHandler(collected := Collected())
    for number in range(LOGGED_PER_SECOND_MAX + 7):
        at(7.5, logger, logging.INFO, f"failed {number}")
    assert len(collected.messages) == LOGGED_PER_SECOND_MAX
    at(8.5, logger, logging.WARNING, "later")
    assert collected.messages[LOGGED_PER_SECOND_MAX:] == ["Further messages not logged: count=7", "later"]


def test_debug_messages_and_errors_are_not_limited(logger: logging.Logger) -> None:
    logger.addHandler(collected := Collected())
    for level in (logging.DEBUG, logging.ERROR):
        for _ in range(2 * LOGGED_PER_SECOND_MAX):
            at(7.5, logger, level, "message")
    assert len(collected.messages) == 4 * LOGGED_PER_SECOND_MAX


@pytest.mark.parametrize("module", [connection, connection_authentication, tls_connection])
def test_messages_that_clients_cause_without_a_login_are_limited(module: object) -> None:
    filters = vars(module)["logger"].filters
    assert [one for one in filters if isinstance(one, LimitedMessages)]
