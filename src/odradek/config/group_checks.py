"""Validates the broker's consumer group configs against each other."""

from typing import Final

from odradek.config.given import Given

ASSIGNORS: Final = ("uniform", "range")
_ASSIGNORS: Final = "group.consumer.assignors"
_HEARTBEAT_INTERVAL: Final = "group.consumer.heartbeat.interval.ms"
_SESSION_TIMEOUT: Final = "group.consumer.session.timeout.ms"
_BOUNDED: Final = (
    (_HEARTBEAT_INTERVAL, "group.consumer.min.heartbeat.interval.ms", "group.consumer.max.heartbeat.interval.ms"),
    (_SESSION_TIMEOUT, "group.consumer.min.session.timeout.ms", "group.consumer.max.session.timeout.ms"),
    (
        "group.consumer.assignment.interval.ms",
        "group.consumer.min.assignment.interval.ms",
        "group.consumer.max.assignment.interval.ms",
    ),
)


def check_consumer_groups(given: Given) -> None:
    for name, least, most in _BOUNDED:
        _require(given, given.typed[most] >= given.typed[least], most, "must be greater than or equal to", least)
        _require(given, given.typed[name] >= given.typed[least], name, "must be greater than or equal to", least)
        _require(given, given.typed[name] <= given.typed[most], name, "must be less than or equal to", most)
    is_shorter = given.typed[_HEARTBEAT_INTERVAL] < given.typed[_SESSION_TIMEOUT]
    _require(given, is_shorter, _HEARTBEAT_INTERVAL, "must be less than", _SESSION_TIMEOUT)
    for name in given.typed[_ASSIGNORS] or ():
        if name not in ASSIGNORS and not given.problems.has_error(_ASSIGNORS):
            known = " or ".join(ASSIGNORS)
            given.problems.error(_ASSIGNORS, f"{_ASSIGNORS}: cannot load the Java class {name}; use {known}")


def _require(given: Given, satisfied: bool, name: str, relation: str, other: str) -> None:
    """Reports the error at the config that the file contains, and at most once for both."""
    if not satisfied and not given.problems.has_error(name, other):
        given.problems.error(name if name in given.texts else other, f"{name} {relation} {other}")
