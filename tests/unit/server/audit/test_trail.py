"""Failed logins and denials on their way to the audit log."""

from collections import Counter

import pytest

from odradek.base.principal import ANONYMOUS, Principal
from odradek.core.audit.event import AuditEvent, Caller
from odradek.core.security.authorizer import Decision, Denial, Reason
from odradek.core.security.resources import Operation, ResourceType
from odradek.server.audit.trail import CURRENT, REJECTIONS_PER_SECOND_MAX, AuditTrail, BuildEvents
from odradek.server.security import AuthenticationFailure
from tests.unit.quorum.fake_controller_node import ManualClock

DENIAL = Denial(
    Principal("User", "ann"),
    "10.0.0.1",
    Operation.READ,
    ResourceType.TOPIC,
    "secret",
    Decision(False, Reason.NO_ENTRY),
)


class ListSink:
    def __init__(self) -> None:
        self.events: list[AuditEvent] = []
        self.sizes: list[tuple[int, bool]] = []
        self.dropped: Counter[str] = Counter()

    def offer(self, build: BuildEvents, *, size: int = 1, is_change: bool = False) -> None:
        self.events += build()
        self.sizes.append((size, is_change))

    def count_dropped(self, reason: str) -> None:
        self.dropped[reason] += 1


@pytest.fixture
def sink() -> ListSink:
    return ListSink()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def trail(sink: ListSink, clock: ManualClock) -> AuditTrail:
    return AuditTrail(1, clock, sink)


@pytest.mark.parametrize(
    ("peer", "address"),
    [
        ("10.0.0.1:1234", "10.0.0.1"),
        ("10.0.0.1", "10.0.0.1"),
        ("[::1]:1234", "::1"),
        ("fe80::2", "fe80::2"),
    ],
)
def test_failed_login_has_the_claimed_user_and_the_address(
    trail: AuditTrail, sink: ListSink, peer: str, address: str
) -> None:
    trail.on_authentication_failure(AuthenticationFailure("CLIENT", peer, "PLAIN", "wrong password", "ann"))
    (event,) = sink.events
    assert event.caller == Caller(address=address, listener="CLIENT")
    assert (event.resource_name, event.mechanism, event.detail) == ("ann", "PLAIN", "wrong password")


def test_a_flood_of_rejections_is_limited_per_second(trail: AuditTrail, sink: ListSink, clock: ManualClock) -> None:
    for _ in range(REJECTIONS_PER_SECOND_MAX + 30):
        trail.on_denied(DENIAL)
    trail.on_authentication_failure(AuthenticationFailure("CLIENT", "10.0.0.1:1", None, "unexpected request"))
    assert (len(sink.events), sink.dropped["rate"]) == (REJECTIONS_PER_SECOND_MAX, 31)
    clock.now += 1
    trail.on_denied(DENIAL)
    assert len(sink.events) == REJECTIONS_PER_SECOND_MAX + 1


def test_denial_has_the_request_that_caused_it(trail: AuditTrail, sink: ListSink) -> None:
    caller = Caller(DENIAL.principal, "10.0.0.1", "app", "CLIENT", "Fetch", "1-0-1", 5)
    token = CURRENT.set(caller)
    trail.on_denied(DENIAL)
    CURRENT.reset(token)
    (event,) = sink.events
    assert event.caller == caller
    assert (event.operation, event.resource_type, event.resource_name) == ("READ", "TOPIC", "secret")


def test_denial_of_another_principal_is_not_attributed_to_the_request(trail: AuditTrail, sink: ListSink) -> None:
    token = CURRENT.set(Caller(ANONYMOUS, "10.0.0.9", "app"))
    trail.on_denied(DENIAL)
    CURRENT.reset(token)
    assert sink.events[0].caller == Caller(DENIAL.principal, "10.0.0.1")
