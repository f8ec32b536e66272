"""Validates the SASL configs of a node: its listeners, and its logins to other nodes."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from odradek.config.given import Given
from odradek.config.listeners import Listener
from odradek.config.sasl_config import ENABLED, JAAS, SASL_PROTOCOLS, SaslConfigError, read_login, read_sasl

INTER_BROKER_MECHANISM = "sasl.mechanism.inter.broker.protocol"
CONTROLLER_MECHANISM = "sasl.mechanism.controller.protocol"
_DELAY = "connection.failed.authentication.delay.ms"


def check_sasl(
    given: Given,
    listeners: tuple[Listener, ...],
    protocols: Mapping[str, str],
    inter_broker_name: str | None,
    controller_names: tuple[str, ...],
) -> None:
    """`inter_broker_name` is None on a node without a broker."""
    own = [one.name for one in listeners if one.security_protocol in SASL_PROTOCOLS]
    peers = dict.fromkeys(controller_names[:1], CONTROLLER_MECHANISM)
    if inter_broker_name is not None:
        peers[inter_broker_name] = INTER_BROKER_MECHANISM
    logins = {name: key for name, key in peers.items() if protocols.get(name) in SASL_PROTOCOLS}
    if JAAS in given.texts:
        given.problems.warn(JAAS, f"{JAAS} has no effect without the prefix listener.name.LISTENER.MECHANISM")
    if not own and not logins:
        return
    for name in own:
        _attempt(given, partial(_check_listener, given, name, logins.get(name)))
    for name, key in logins.items():
        mechanism = given.typed[key]
        if given.problems.has_error(key):
            continue
        _attempt(given, partial(read_login, given.texts, name, mechanism, key, given.login_file))
        if key == CONTROLLER_MECHANISM and mechanism.startswith("SCRAM-"):
            given.problems.warn(
                key,
                f"{key}={mechanism}: if all controllers stop, none can log in again, because the passwords are in the "
                "metadata log that they have to elect a leader for. Use PLAIN over TLS, or SSL with certificates.",
            )
    idle_ms = given.typed["connections.max.idle.ms"]
    if not given.problems.has_error(_DELAY, "connections.max.idle.ms") and 0 <= idle_ms <= given.typed[_DELAY]:
        given.problems.error(
            _DELAY, f"{_DELAY} must be less than connections.max.idle.ms, so that the response arrives"
        )


def _check_listener(given: Given, name: str, login_key: str | None) -> None:
    mechanisms = read_sasl(given.texts, name, given.login_file).mechanisms
    if login_key is not None and given.typed[login_key] not in mechanisms:
        raise SaslConfigError(
            login_key, f"{given.typed[login_key]} is not in {ENABLED} of listener {name} ({', '.join(mechanisms)})"
        )


def _attempt(given: Given, check: Callable[[], Any]) -> None:
    try:
        check()
    except SaslConfigError as error:
        if not given.problems.has_error(error.key):
            given.problems.error(error.key, str(error))
