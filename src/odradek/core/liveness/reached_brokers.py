"""Which broker registrations have accepted a connection from this controller.

A refused connection shows that a process is dead only if the same registration has accepted a connection from here
before: a firewall that rejects connections, or a Kubernetes Service without endpoints, refuses them while the process
runs. So every controller, active or not, connects once to each registration. The next active controller then has the
same evidence as the last one.

This is a state machine: `step` takes an event and the time, and returns effects. It has no socket and no clock.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from odradek.base.values import value
from odradek.core.liveness.probes import RegisteredEndpoint, find_registered_endpoint
from odradek.core.metadata.image import BrokerImage

FIRST_RETRY_SECONDS: Final = 0.05
"""A broker opens its port a moment after it is unfenced."""
RETRY_SECONDS_MAX: Final = 10.0
TIMEOUT_SECONDS: Final = 1.0
CONNECTIONS_MAX: Final = 50
"""Connections in progress at the same time, so that a start in a large cluster is no burst."""


# Events


@value
class RegistrationsChanged:
    brokers: Mapping[int, BrokerImage]


@value
class Connected:
    endpoint: RegisteredEndpoint


@value
class NotConnected:
    endpoint: RegisteredEndpoint


@value
class TimePassed:
    pass


Event: TypeAlias = RegistrationsChanged | Connected | NotConnected | TimePassed


# Effects


@value
class Connect:
    """Connect to the endpoint, close the connection, and report Connected or NotConnected."""

    endpoint: RegisteredEndpoint
    timeout_seconds: float


@value
class WakeAt:
    """Report TimePassed at this moment. Replaces the previous one."""

    moment: float


Effect: TypeAlias = Connect | WakeAt


@dataclass(slots=True)
class _Attempt:
    due_at: float
    retry_seconds: float = FIRST_RETRY_SECONDS
    is_running: bool = False


class ReachTracker:
    def __init__(self, own_id: int, inter_broker_listener_name: str) -> None:
        """`own_id`: the node of this controller, which needs no evidence about its own process."""
        self._own_id: Final = own_id
        self._listener_name: Final = inter_broker_listener_name
        self._reached: set[RegisteredEndpoint] = set()
        self._attempts: dict[RegisteredEndpoint, _Attempt] = {}
        """Of the registrations that are to be reached."""

    def has_reached(self, endpoint: RegisteredEndpoint) -> bool:
        return endpoint in self._reached

    def step(self, event: Event, now: float) -> tuple[Effect, ...]:
        match event:
            case RegistrationsChanged(brokers):
                self._on_registrations_changed(brokers, now)
            case Connected(endpoint):
                self._attempts.pop(endpoint, None)
                self._reached.add(endpoint)
            case NotConnected(endpoint):
                self._on_not_connected(endpoint, now)
            case TimePassed():
                pass
        return self._advance(now)

    def _on_registrations_changed(self, brokers: Mapping[int, BrokerImage], now: float) -> None:
        registered = {
            endpoint: broker.fenced
            for broker in brokers.values()
            if broker.id != self._own_id
            and (endpoint := find_registered_endpoint(broker, self._listener_name)) is not None
        }
        self._reached.intersection_update(registered)
        # A fenced broker may not listen yet. While it is fenced, nothing depends on the evidence.
        wanted = [endpoint for endpoint, is_fenced in registered.items() if not is_fenced]
        self._attempts = {
            endpoint: self._attempts.get(endpoint) or _Attempt(now)
            for endpoint in wanted
            if endpoint not in self._reached
        }

    def _on_not_connected(self, endpoint: RegisteredEndpoint, now: float) -> None:
        attempt = self._attempts.get(endpoint)
        if attempt is not None:
            attempt.is_running = False
            attempt.due_at = now + attempt.retry_seconds
            attempt.retry_seconds = min(2 * attempt.retry_seconds, RETRY_SECONDS_MAX)

    def _advance(self, now: float) -> tuple[Effect, ...]:
        effects: list[Effect] = []
        running = sum(attempt.is_running for attempt in self._attempts.values())
        for endpoint, attempt in self._attempts.items():
            if running < CONNECTIONS_MAX and not attempt.is_running and now >= attempt.due_at:
                attempt.is_running = True
                running += 1
                effects.append(Connect(endpoint, TIMEOUT_SECONDS))
        # Attempts that wait for others in progress continue when one of those ends.
        due = [one.due_at for one in self._attempts.values() if not one.is_running and one.due_at > now]
        if due:
            effects.append(WakeAt(min(due)))
        return tuple(effects)
