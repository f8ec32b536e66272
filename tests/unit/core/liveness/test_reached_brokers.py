"""Every controller connects once to each registration, before a refused connection can count."""

from dataclasses import replace
from itertools import pairwise

import pytest

from odradek.core.liveness.probes import RegisteredEndpoint
from odradek.core.liveness.reached_brokers import (
    CONNECTIONS_MAX,
    FIRST_RETRY_SECONDS,
    RETRY_SECONDS_MAX,
    Connect,
    Connected,
    Event,
    NotConnected,
    ReachTracker,
    RegistrationsChanged,
    TimePassed,
    WakeAt,
)
from odradek.core.metadata.image import BrokerImage
from tests.unit.core.liveness.detection import CONTROLLER_ID, broker, endpoint


class Reaching:
    def __init__(self, *brokers: BrokerImage, own_id: int = CONTROLLER_ID) -> None:
        self.now = 1000.0
        self.reached = ReachTracker(own_id, "PLAINTEXT")
        self.connects: list[tuple[float, RegisteredEndpoint]] = []
        self.wake_at: float | None = None
        self.register(*brokers)

    def register(self, *brokers: BrokerImage) -> None:
        self.happen(RegistrationsChanged({one.id: one for one in brokers}))

    def happen(self, event: Event) -> None:
        self.wake_at = None
        for effect in self.reached.step(event, self.now):
            match effect:
                case Connect(registered):
                    self.connects.append((self.now, registered))
                case WakeAt(moment):
                    self.wake_at = moment

    def wake(self) -> None:
        assert self.wake_at is not None
        self.now = self.wake_at
        self.happen(TimePassed())

    @property
    def connected_ids(self) -> list[int]:
        return [registered.broker_id for _, registered in self.connects]


def registered(broker_id: int, epoch: int = 10, port: int = 9092) -> RegisteredEndpoint:
    return RegisteredEndpoint(broker_id, epoch, "h", port)


def test_each_registration_is_reached_once() -> None:
    reaching = Reaching(broker(1), broker(2))
    assert reaching.connected_ids == [1, 2]
    assert not reaching.reached.has_reached(registered(1))
    reaching.happen(Connected(registered(1)))
    reaching.happen(Connected(registered(2)))
    assert reaching.reached.has_reached(registered(1))
    reaching.register(broker(1), broker(2))
    assert (reaching.connected_ids, reaching.wake_at) == ([1, 2], None)


def test_failed_connections_are_retried_with_backoff() -> None:
    reaching = Reaching(broker(1))
    for _ in range(20):
        reaching.happen(NotConnected(registered(1)))
        reaching.wake()
    moments = [moment for moment, _ in reaching.connects]
    intervals = [after - before for before, after in pairwise(moments)]
    assert intervals[0] == pytest.approx(FIRST_RETRY_SECONDS)
    assert intervals[1] == pytest.approx(2 * FIRST_RETRY_SECONDS)
    assert intervals[-1] == pytest.approx(RETRY_SECONDS_MAX)
    reaching.happen(Connected(registered(1)))
    assert reaching.reached.has_reached(registered(1))


def test_fenced_broker_is_reached_once_it_is_unfenced() -> None:
    reaching = Reaching(broker(1, fenced=True))
    assert reaching.connects == []
    reaching.register(broker(1))
    assert reaching.connected_ids == [1]
    reaching.register(broker(1, fenced=True))
    reaching.happen(NotConnected(registered(1)))
    assert reaching.wake_at is None


def test_registration_that_was_reached_stays_reached_while_it_is_fenced() -> None:
    reaching = Reaching(broker(1))
    reaching.happen(Connected(registered(1)))
    reaching.register(broker(1, fenced=True))
    reaching.register(broker(1))
    assert reaching.reached.has_reached(registered(1))
    assert reaching.connected_ids == [1]


@pytest.mark.parametrize(
    "changed",
    [broker(1, epoch=11), replace(broker(1), endpoints=(endpoint(port=9093),))],
    ids=["another process", "another endpoint"],
)
def test_changed_registration_has_to_be_reached_again(changed: BrokerImage) -> None:
    reaching = Reaching(broker(1))
    reaching.happen(Connected(registered(1)))
    reaching.register(changed)
    assert reaching.connected_ids == [1, 1]
    assert not reaching.reached.has_reached(reaching.connects[-1][1])
    reaching.register(broker(1))
    assert not reaching.reached.has_reached(registered(1))


def test_unregistered_broker_is_forgotten() -> None:
    reaching = Reaching(broker(1))
    reaching.register()
    reaching.happen(NotConnected(registered(1)))
    assert reaching.wake_at is None


def test_own_broker_and_unknown_endpoints_are_left_out() -> None:
    nameless = replace(broker(2), endpoints=(endpoint("A", 1), endpoint("B", 2)))
    assert Reaching(broker(1), nameless, own_id=1).connects == []


def test_connections_in_progress_are_limited() -> None:
    brokers = [broker(number) for number in range(CONNECTIONS_MAX + 2)]
    reaching = Reaching(*brokers)
    assert len(reaching.connects) == CONNECTIONS_MAX
    reaching.happen(Connected(registered(0)))
    reaching.happen(NotConnected(registered(1)))
    assert len(reaching.connects) == CONNECTIONS_MAX + 2
