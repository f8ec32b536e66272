"""The levels of this process's loggers, as the resource BROKER_LOGGER describes and changes them, until a restart.

As in Kafka, a logger must exist. The exceptions are the loggers that select which requests are logged:
`kafka.request.logger.client.<client id>` and `kafka.request.logger.topic.<name>`.
"""

import logging
from collections.abc import Iterable, Sequence
from typing import Final

from odradek.base.errors import ErrorCode, KafkaError
from odradek.config.alteration import Change, Operation
from odradek.instruments.request_log import LOGGER, OF_CLIENT, OF_TOPIC, REQUEST_LOG, SELECTED_MAX

ROOT: Final = "root"
TRACE: Final = 5
_LEVELS: Final = {
    "DEBUG": logging.DEBUG,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
    "INFO": logging.INFO,
    "TRACE": TRACE,
    "WARN": logging.WARNING,
}
_LOGGING: Final = (logging.DEBUG, TRACE)
_NAMES: Final = {level: name for name, level in _LEVELS.items()}

logger: Final = logging.getLogger(__name__)
logging.getLogger(LOGGER).setLevel(logging.INFO)


def levels() -> dict[str, str]:
    """The effective level of every logger."""
    own = {name: _NAMES.get(one.getEffectiveLevel(), "INFO") for name, one in _loggers().items()}
    return own | dict.fromkeys(_selected_names(), "DEBUG")


def change_levels(resource_name: str, changes: Sequence[Change], own_id: int, *, validate_only: bool) -> None:
    """Applies all changes or none. Raises KafkaError."""
    node_id = node_id_of(resource_name)
    if node_id != own_id:
        reason = f"Unexpected node id. Expected {own_id}, but received {node_id}"
        raise KafkaError(ErrorCode.invalid_request, reason)
    _check(changes)
    if not validate_only:
        _apply(changes)


def node_id_of(resource_name: str) -> int:
    try:
        return int(resource_name)
    except ValueError:
        reason = f"Node id must be an integer, but it is: {resource_name}"
        raise KafkaError(ErrorCode.invalid_request, reason) from None


def _check(changes: Iterable[Change]) -> None:
    known, selected = _loggers(), set(_selected_names())
    for change in changes:
        if change.operation in (Operation.APPEND, Operation.SUBTRACT):
            reason = f"{change.operation.name} operation is not allowed for the BROKER_LOGGER resource"
            raise KafkaError(ErrorCode.invalid_request, reason)
        selects = change.name.startswith((OF_CLIENT, OF_TOPIC))
        if change.name not in known and not selects:
            raise KafkaError(ErrorCode.invalid_config, f"Logger {change.name} does not exist!")
        if change.operation is Operation.DELETE:
            if change.name == ROOT:
                reason = f"Removing the log level of the {ROOT} logger is not allowed"
                raise KafkaError(ErrorCode.invalid_request, reason)
            continue
        if change.value not in _LEVELS:
            raise KafkaError(
                ErrorCode.invalid_config,
                f"Cannot set the log level of {change.name} to {change.value} as it is not a supported log level. "
                f"Valid log levels are {', '.join(_LEVELS)}",
            )
        if selects:
            selected.add(change.name)
    if len(selected) > SELECTED_MAX:
        reason = f"Requests of at most {SELECTED_MAX} clients and topics are logged at a time"
        raise KafkaError(ErrorCode.invalid_config, reason)


def _apply(changes: Iterable[Change]) -> None:
    selected = set(_selected_names())
    for change in changes:
        level = None if change.operation is Operation.DELETE else _LEVELS[change.value or ""]
        if change.name.startswith((OF_CLIENT, OF_TOPIC)):
            (selected.add if level in _LOGGING else selected.discard)(change.name)
        elif change.name == ROOT:
            logging.root.setLevel(level or logging.INFO)
        else:
            # The request log is enabled explicitly: it does not inherit the root's level.
            unset = logging.INFO if change.name == LOGGER else logging.NOTSET
            logging.getLogger(change.name).setLevel(unset if level is None else level)
        logger.warning("Log level of %s changed to %s", change.name, "unset" if level is None else change.value)
    REQUEST_LOG.select(
        logging.getLogger(LOGGER).level in _LOGGING,
        frozenset(name.removeprefix(OF_CLIENT) for name in selected if name.startswith(OF_CLIENT)),
        frozenset(name.removeprefix(OF_TOPIC) for name in selected if name.startswith(OF_TOPIC)),
    )


def _selected_names() -> list[str]:
    clients = (OF_CLIENT + client for client in sorted(REQUEST_LOG.clients))
    return [*clients, *(OF_TOPIC + topic for topic in sorted(REQUEST_LOG.topics))]


def _loggers() -> dict[str, logging.Logger]:
    named = {name: one for name, one in logging.root.manager.loggerDict.items() if isinstance(one, logging.Logger)}
    return {ROOT: logging.root} | named
