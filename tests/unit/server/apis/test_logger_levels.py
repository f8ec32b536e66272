"""Levels of loggers, changed as Kafka changes them, and whose requests are written down."""

import logging
from collections.abc import Iterator

import pytest

from odradek.base.errors import ErrorCode, KafkaError
from odradek.config.alteration import Change, Operation
from odradek.instruments.request_log import REQUEST_LOG, SELECTED_MAX
from odradek.server.apis.logger_levels import change_levels, levels

REQUESTS = "kafka.request.logger"
NODE_ID = 1


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    before = logging.root.level
    yield
    logging.root.setLevel(before)
    logging.getLogger("odradek.tried").setLevel(logging.NOTSET)
    logging.getLogger(REQUESTS).setLevel(logging.INFO)
    REQUEST_LOG.select(False, frozenset(), frozenset())


def change(*changes: tuple[str, Operation, str | None], name: str = "1", validate_only: bool = False) -> None:
    change_levels(name, [Change(*one) for one in changes], NODE_ID, validate_only=validate_only)


def test_levels_are_set_and_unset() -> None:
    logging.getLogger("odradek.tried")
    change(("odradek.tried", Operation.SET, "TRACE"))
    assert levels()["odradek.tried"] == "TRACE"
    change(("root", Operation.SET, "ERROR"), ("odradek.tried", Operation.DELETE, None))
    assert levels()["root"] == levels()["odradek.tried"] == "ERROR"


@pytest.mark.parametrize(
    ("changes", "code", "message"),
    [
        ([("no.such", Operation.SET, "INFO")], ErrorCode.invalid_config, "Logger no.such does not exist!"),
        ([("no.such", Operation.DELETE, None)], ErrorCode.invalid_config, "Logger no.such does not exist!"),
        ([("root", Operation.DELETE, None)], ErrorCode.invalid_request, "Removing the log level of the root logger"),
        ([("root", Operation.APPEND, "INFO")], ErrorCode.invalid_request, "APPEND operation is not allowed"),
        ([("root", Operation.SET, "info")], ErrorCode.invalid_config, "Cannot set the log level of root to info"),
        (
            [(f"{REQUESTS}.client.{number}", Operation.SET, "DEBUG") for number in range(SELECTED_MAX + 1)],
            ErrorCode.invalid_config,
            "at most 100",
        ),
    ],
)
def test_invalid_log_level_is_rejected_and_nothing_changes(
    changes: list[tuple[str, Operation, str | None]], code: ErrorCode, message: str
) -> None:
    before = levels()
    with pytest.raises(KafkaError, match=message) as caught:
        change((REQUESTS, Operation.SET, "DEBUG"), *changes)
    assert caught.value.code is code
    assert levels() == before
    assert not REQUEST_LOG.is_on


def test_validate_only_changes_no_log_level() -> None:
    change((REQUESTS, Operation.SET, "DEBUG"), validate_only=True)
    assert not REQUEST_LOG.is_on


def test_logged_requests_are_selected_by_client_and_topic() -> None:
    client, topic = f"{REQUESTS}.client.my.app", f"{REQUESTS}.topic.orders"
    change((client, Operation.SET, "DEBUG"), (topic, Operation.SET, "TRACE"))
    assert (REQUEST_LOG.is_for_all_clients, REQUEST_LOG.clients, REQUEST_LOG.topics) == (False, {"my.app"}, {"orders"})
    assert levels()[client] == levels()[topic] == "DEBUG"
    change((client, Operation.SET, "INFO"), (topic, Operation.DELETE, None))
    assert not REQUEST_LOG.is_on
    assert client not in levels()
    # The request log does not inherit the level of the root logger.
    change(("root", Operation.SET, "DEBUG"))
    assert not REQUEST_LOG.is_on
    change((REQUESTS, Operation.SET, "DEBUG"))
    assert REQUEST_LOG.is_for_all_clients
    change((REQUESTS, Operation.DELETE, None))
    assert not REQUEST_LOG.is_on


def test_listeners_are_notified_when_the_request_log_is_enabled_or_disabled() -> None:
    class Server:
        notifications = 0

        def on_request_log_changed(self) -> None:
            self.notifications += 1

    server, gone = Server(), Server()
    REQUEST_LOG.add_listener(server)
    REQUEST_LOG.add_listener(gone)
    del gone
    REQUEST_LOG.select(False, frozenset({"a"}), frozenset())
    REQUEST_LOG.select(False, frozenset({"a", "b"}), frozenset())
    assert server.notifications == 1
    REQUEST_LOG.select(False, frozenset(), frozenset())
    assert server.notifications == 2
