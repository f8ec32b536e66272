"""Metrics of a node's authorizers, one per role: checks per minute, and the number of ACLs."""

from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

from odradek.core.security.authorizer import Authorizer
from odradek.observe.families import Family, Labels, attribute

WINDOW_SECONDS: Final = 60.0
_LEAST_SECONDS: Final = WINDOW_SECONDS / 2
"""As in Kafka, a shorter time counts as this long: a few checks after the start are no high rate."""
_MARKS_MAX: Final = 100
_BEAN: Final = "plugins"


class _Mark(NamedTuple):
    seconds: float
    allowed: int
    denied: int


class _Role:
    def __init__(self, name: str, authorizer: Authorizer, now: float) -> None:
        self.labels: Final[Labels] = {
            "config": "authorizer.class.name",
            "class": "StandardAuthorizer",
            "role": name,
        }
        self.authorizer: Final = authorizer
        self.marks: Final = deque([self.mark(now)], maxlen=_MARKS_MAX)

    def mark(self, now: float) -> _Mark:
        counts = self.authorizer.counts
        return _Mark(now, counts.allowed, counts.denied)

    def per_minute(self, now: float) -> tuple[float, float]:
        """Allowed and denied checks of the last minute."""
        while len(self.marks) > 1 and now - self.marks[1].seconds >= WINDOW_SECONDS:
            self.marks.popleft()
        first, last = self.marks[0], self.mark(now)
        minutes = max(now - first.seconds, _LEAST_SECONDS) / 60
        return (last.allowed - first.allowed) / minutes, (last.denied - first.denied) / minutes


class AuthorizerReadings:
    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic: Final = monotonic
        self._roles: Final[list[_Role]] = []

    def add(self, role: str, authorizer: Authorizer) -> None:
        self._roles.append(_Role(role, authorizer, self._monotonic()))

    def mark(self) -> None:
        """To be called several times a minute."""
        now = self._monotonic()
        for role in self._roles:
            role.marks.append(role.mark(now))

    async def families(self) -> list[Family]:
        if not self._roles:
            return []
        now = self._monotonic()
        rates = [(role.labels, *role.per_minute(now)) for role in self._roles]
        return [
            attribute(_BEAN, "authorization-allowed-rate-per-minute", [(one, allowed) for one, allowed, _ in rates]),
            attribute(_BEAN, "authorization-denied-rate-per-minute", [(one, denied) for one, _, denied in rates]),
            attribute(_BEAN, "authorization-request-rate-per-minute", [(one, yes + no) for one, yes, no in rates]),
            attribute(_BEAN, "acls-total-count", [(role.labels, role.authorizer.acl_count) for role in self._roles]),
        ]
