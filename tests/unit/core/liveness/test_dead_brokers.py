"""The rules of the early detection of dead brokers."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.core.liveness.dead_brokers import (
    Activated,
    ConnectionClosed,
    FenceBroker,
    HeartbeatAccepted,
    ProbeCompleted,
    TimePassed,
)
from odradek.core.liveness.probes import ProbeResult, RegisteredEndpoint
from tests.unit.core.liveness.detection import GRACE, SESSION, Detection, broker, endpoint

TO_FENCE = GRACE + GRACE / 6
"""From the closed connection: the delay of the first probe, then the grace period."""


class TestDeadProcess:
    def test_dead_broker_is_fenced_after_the_grace_period(self) -> None:
        detection = Detection()
        detection.serve()
        detection.pass_time(5)
        died_at = detection.now
        detection.die(2)
        detection.pass_time(SESSION)
        ((moment, fence),) = detection.fences
        assert died_at + TO_FENCE <= moment < died_at + TO_FENCE + 0.01
        assert (fence.broker_id, fence.broker_epoch, fence.unresponsive_since) == (2, 10, died_at)

    def test_port_is_probed_during_the_whole_grace_period(self) -> None:
        detection = Detection()
        detection.serve()
        died_at = detection.now
        detection.die(2)
        detection.pass_time(1)
        moments = [moment - died_at for moment, _ in detection.probes]
        assert 7 <= len(moments) <= 8
        assert moments[0] == pytest.approx(GRACE / 6)
        assert moments[-1] == pytest.approx(TO_FENCE, abs=0.002)
        assert max(after - before for before, after in pairwise(moments)) <= GRACE / 6 + 0.001

    def test_no_probes_after_the_fence(self) -> None:
        detection = Detection()
        detection.serve()
        detection.die(2)
        detection.pass_time(1)
        count = len(detection.probes)
        detection.pass_time(100)
        assert len(detection.probes) == count
        assert detection.detector.step(TimePassed(), detection.now) == ()

    def test_port_that_closes_after_the_connection_counts_as_refused(self) -> None:
        detection = Detection()
        detection.serve()
        detection.happen(ConnectionClosed(2, by_us=False))
        detection.pass_time(GRACE / 10)
        detection.ports[2] = ProbeResult.REFUSED
        detection.pass_time(1)
        assert detection.fenced_ids == [2]

    def test_slow_refusal_counts(self) -> None:
        detection = Detection()
        detection.latency = 0.12
        detection.serve()
        detection.die(2)
        detection.pass_time(1)
        assert detection.fenced_ids == [2]

    def test_inter_broker_endpoint_is_probed(self) -> None:
        detection = Detection()
        detection.brokers[2] = replace(
            detection.brokers[2], endpoints=(endpoint("EXTERNAL", 1), endpoint("PLAINTEXT", 2))
        )
        detection.serve()
        detection.die(2)
        detection.pass_time(GRACE / 6)
        assert [probe.endpoint.port for _, probe in detection.probes] == [2]

    def test_only_endpoint_is_probed_whatever_its_name(self) -> None:
        detection = Detection()
        detection.brokers[2] = replace(detection.brokers[2], endpoints=(endpoint("INTERNAL", 3),))
        detection.serve()
        detection.die(2)
        detection.pass_time(GRACE / 6)
        assert [probe.endpoint.port for _, probe in detection.probes] == [3]

    def test_broker_without_the_inter_broker_endpoint_is_not_suspected(self) -> None:
        detection = Detection()
        detection.brokers[2] = replace(detection.brokers[2], endpoints=(endpoint("A", 1), endpoint("B", 2)))
        detection.serve()
        detection.die(2)
        detection.pass_time(1)
        assert (detection.probes, detection.fences) == ([], [])


class TestNoRefusal:
    @pytest.mark.parametrize("probe_result", [ProbeResult.CONNECTED, ProbeResult.UNREACHABLE])
    @pytest.mark.parametrize("moment", [0.0, 0.1, 0.29])
    def test_broker_that_does_not_refuse_keeps_its_session(self, probe_result: ProbeResult, moment: float) -> None:
        detection = Detection()
        detection.serve()
        detection.die(2)
        detection.pass_time(moment)
        detection.ports[2] = probe_result
        detection.pass_time(0.2)
        # Too late: what was seen once cannot be unseen.
        detection.ports[2] = ProbeResult.REFUSED
        detection.pass_time(SESSION)
        assert detection.fences == []

    def test_next_closed_connection_starts_a_new_suspicion(self) -> None:
        detection = Detection()
        detection.serve()
        detection.happen(ConnectionClosed(2, by_us=False))
        detection.pass_time(1)
        detection.beat(2, connection=22)
        detection.die(2, connection=22)
        detection.pass_time(1)
        assert detection.fenced_ids == [2]

    def test_result_of_an_older_probe_is_ignored(self) -> None:
        detection = Detection()
        detection.serve()
        detection.die(2)
        detection.pass_time(0.2)
        detection.happen(ProbeCompleted(2, 1, ProbeResult.CONNECTED))
        detection.pass_time(1)
        assert detection.fenced_ids == [2]


class TestNeverReached:
    """A firewall that rejects connections, or a Kubernetes Service without endpoints, refuses like a dead process."""

    def test_refusal_of_a_registration_never_reached_is_no_evidence(self) -> None:
        detection = Detection()
        detection.unreached.add(RegisteredEndpoint(2, 10, "h", 9092))
        detection.serve()
        detection.die(2)
        detection.pass_time(SESSION)
        assert detection.fences == []
        assert detection.detector.suspected_ids == ()
        assert len(detection.probes) == 1

    def test_refusal_after_activation_is_no_evidence_either(self) -> None:
        detection = Detection()
        detection.unreached.add(RegisteredEndpoint(2, 10, "h", 9092))
        detection.ports[2] = ProbeResult.REFUSED
        detection.activate()
        detection.beat(1)
        detection.beat(3)
        detection.pass_time(SESSION)
        assert detection.fences == []

    def test_other_endpoint_that_was_reached_does_not_count(self) -> None:
        detection = Detection()
        detection.unreached.add(RegisteredEndpoint(2, 10, "h", 9999))
        detection.serve()
        detection.brokers[2] = replace(detection.brokers[2], endpoints=(endpoint(port=9999),))
        detection.die(2)
        detection.pass_time(SESSION)
        assert detection.fences == []


class TestHeartbeat:
    @pytest.mark.parametrize("moment", [0.0, 0.15, 0.3])
    def test_heartbeat_ends_the_suspicion(self, moment: float) -> None:
        detection = Detection()
        detection.serve()
        detection.die(2)
        detection.pass_time(moment)
        detection.beat(2, connection=22)
        detection.pass_time(SESSION)
        assert detection.fences == []
        assert detection.detector.suspected_ids == ()

    def test_heartbeat_of_an_older_registration_does_not_end_the_suspicion(self) -> None:
        detection = Detection()
        detection.serve()
        detection.die(2)
        detection.happen(HeartbeatAccepted(2, 9, 22))
        detection.pass_time(1)
        assert detection.fenced_ids == [2]

    def test_only_the_connection_of_the_last_heartbeat_matters(self) -> None:
        detection = Detection()
        detection.serve()
        detection.beat(2, connection=22)
        detection.ports[2] = ProbeResult.REFUSED
        detection.happen(ConnectionClosed(2, by_us=False))
        detection.pass_time(1)
        assert detection.probes == []

    def test_from_within_the_process_has_no_connection_to_lose(self) -> None:
        detection = Detection(own_id=2)
        detection.activate()
        detection.happen(HeartbeatAccepted(2, 10, None))
        detection.ports[2] = ProbeResult.REFUSED
        detection.beat(1)
        detection.beat(3)
        detection.pass_time(2)
        assert detection.probes == []


class TestConnection:
    def test_connection_closed_by_the_controller_is_no_evidence(self) -> None:
        detection = Detection()
        detection.serve()
        detection.ports[2] = ProbeResult.REFUSED
        detection.happen(ConnectionClosed(2, by_us=True))
        # The other end notices too, later.
        detection.happen(ConnectionClosed(2, by_us=False))
        detection.pass_time(1)
        assert detection.probes == []

    def test_connection_of_another_broker_is_no_evidence(self) -> None:
        detection = Detection()
        detection.serve()
        detection.happen(ConnectionClosed(77, by_us=False))
        assert detection.detector.suspected_ids == ()

    def test_connection_of_a_fenced_broker_is_no_evidence(self) -> None:
        detection = Detection()
        detection.brokers[2] = broker(2, fenced=True)
        detection.serve()
        detection.die(2)
        detection.pass_time(1)
        assert detection.probes == []


class TestRegistration:
    @pytest.mark.parametrize("moment", [0.0, 0.1, 0.29])
    def test_new_registration_ends_the_suspicion(self, moment: float) -> None:
        detection = Detection()
        detection.serve()
        detection.die(2)
        detection.pass_time(moment)
        detection.brokers[2] = broker(2, epoch=11)
        detection.pass_time(SESSION)
        assert detection.fences == []

    @pytest.mark.parametrize("is_fenced", [True, False])
    def test_removed_or_fenced_registration_ends_the_suspicion(self, is_fenced: bool) -> None:
        detection = Detection()
        detection.serve()
        detection.die(2)
        detection.pass_time(0.1)
        if is_fenced:
            detection.brokers[2] = broker(2, fenced=True)
        else:
            del detection.brokers[2]
        detection.pass_time(1)
        assert detection.fences == []
        assert detection.detector.suspected_ids == ()

    def test_fence_is_for_the_probed_registration(self) -> None:
        detection = Detection()
        detection.brokers[2] = broker(2, epoch=77)
        detection.serve()
        detection.die(2)
        detection.pass_time(1)
        assert [fence.broker_epoch for _, fence in detection.fences] == [77]


class TestAfterActivation:
    def test_broker_without_heartbeat_is_suspected_after_the_grace_period(self) -> None:
        detection = Detection()
        detection.ports[2] = ProbeResult.REFUSED
        detection.activate()
        detection.beat(1)
        detection.beat(3)
        detection.pass_time(GRACE - 0.01)
        assert detection.probes == []
        detection.pass_time(GRACE - 0.01)
        assert detection.fences == []
        detection.pass_time(0.03)
        assert detection.fenced_ids == [2]

    def test_live_broker_without_heartbeat_is_not_fenced(self) -> None:
        detection = Detection()
        detection.activate()
        detection.pass_time(SESSION)
        assert detection.probes
        assert detection.fences == []

    def test_broker_with_heartbeat_is_not_probed(self) -> None:
        detection = Detection()
        detection.activate()
        detection.pass_time(GRACE / 2)
        detection.all_beat()
        detection.pass_time(1)
        assert detection.probes == []

    def test_own_broker_is_never_suspected(self) -> None:
        detection = Detection(own_id=2)
        detection.ports[2] = ProbeResult.REFUSED
        detection.activate()
        detection.pass_time(1)
        assert 2 not in {probe.broker_id for _, probe in detection.probes}

    def test_fenced_brokers_count_as_recently_fenced_after_activation(self) -> None:
        detection = Detection(4)
        detection.brokers[1] = broker(1, fenced=True)
        detection.serve()
        detection.die(2)
        detection.pass_time(1)
        assert detection.fences == []
        detection.pass_time(SESSION)
        detection.die(3)
        detection.pass_time(1)
        assert detection.fenced_ids == [3]


class TestStall:
    @pytest.mark.parametrize("moment", [0.01, 0.149, 0.29])
    def test_stall_of_more_than_half_the_grace_period_restarts_it(self, moment: float) -> None:
        detection = Detection()
        detection.serve()
        detection.die(2)
        died_at = detection.now
        detection.pass_time(moment)
        detection.stall(GRACE * 0.6)
        awake_at = detection.now
        detection.pass_time(1)
        ((fenced_at, fence),) = detection.fences
        assert fenced_at >= awake_at + GRACE
        assert fence.unresponsive_since == died_at

    def test_repeated_stalls_never_fence(self) -> None:
        detection = Detection()
        detection.serve()
        detection.die(2)
        for _ in range(50):
            detection.pass_time(0.28)
            detection.stall(GRACE * 0.6)
        assert detection.fences == []

    def test_unread_heartbeat_is_processed_after_a_stall(self) -> None:
        detection = Detection()
        detection.serve()
        detection.die(2)
        detection.pass_time(0.29)
        detection.stall(30)
        detection.happen(TimePassed())
        detection.beat(2, connection=22)
        detection.pass_time(1)
        assert detection.fences == []

    def test_probe_during_a_stall_does_not_count(self) -> None:
        detection = Detection()
        detection.serve()
        detection.die(2)
        detection.pass_time(GRACE / 6)
        attempt = detection.probes[-1][1].attempt
        detection.stall(1)
        detection.happen(ProbeCompleted(2, attempt, ProbeResult.UNREACHABLE))
        detection.pass_time(1)
        assert detection.fenced_ids == [2]

    def test_stall_after_activation_restarts_the_grace_period(self) -> None:
        detection = Detection()
        detection.ports[2] = ProbeResult.REFUSED
        detection.activate()
        detection.stall(GRACE * 3)
        detection.happen(TimePassed())
        assert detection.probes == []
        detection.pass_time(GRACE - 0.01)
        assert detection.probes == []

    def test_short_stall_does_not_restart_the_grace_period(self) -> None:
        detection = Detection()
        detection.serve()
        detection.die(2)
        died_at = detection.now
        detection.pass_time(0.1)
        detection.stall(GRACE * 0.4)
        detection.pass_time(1)
        ((fenced_at, _),) = detection.fences
        assert fenced_at < died_at + TO_FENCE + 0.02

    def test_stall_without_suspicion_has_no_effect(self) -> None:
        detection = Detection()
        detection.serve()
        detection.stall(100)
        detection.die(2)
        died_at = detection.now
        detection.pass_time(1)
        ((fenced_at, _),) = detection.fences
        assert fenced_at < died_at + TO_FENCE + 0.02


class TestControllerWithoutMajority:
    def test_controller_without_majority_keeps_probing(self) -> None:
        detection = Detection()
        detection.serve()
        detection.has_majority = False
        detection.die(2)
        detection.pass_time(2)
        assert detection.fences == []
        assert set(detection.queried_seconds) == {GRACE, GRACE / 2}
        detection.has_majority = True
        detection.pass_time(GRACE / 6 + 0.01)
        assert detection.fenced_ids == [2]

    def test_no_op_record_makes_idle_voters_fetch(self) -> None:
        detection = Detection()
        detection.serve()
        detection.fetched_at = detection.now
        detection.die(2)
        died_at = detection.now
        detection.pass_time(1)
        ((fenced_at, _),) = detection.fences
        assert fenced_at < died_at + TO_FENCE + 0.02
        assert detection.no_ops == 1

    def test_no_op_record_is_written_at_most_once(self) -> None:
        detection = Detection(5)
        detection.serve()
        detection.has_majority = False
        detection.die(2)
        detection.pass_time(2)
        assert detection.no_ops == 1
        detection.has_majority = True
        detection.pass_time(SESSION)
        detection.die(3)
        detection.pass_time(1)
        assert detection.fenced_ids == [2, 3]
        assert detection.no_ops == 1

    def test_open_port_ends_the_suspicion_while_waiting_for_the_majority(self) -> None:
        detection = Detection()
        detection.serve()
        detection.has_majority = False
        detection.die(2)
        detection.pass_time(2)
        del detection.ports[2]
        detection.pass_time(0.1)
        detection.has_majority = True
        detection.ports[2] = ProbeResult.REFUSED
        detection.pass_time(2)
        assert detection.fences == []


class TestMinority:
    @pytest.mark.parametrize(("brokers", "allowed"), [(1, 0), (2, 0), (3, 1), (4, 1), (5, 2), (6, 2), (7, 3)])
    def test_only_a_minority_is_fenced_within_a_session_timeout(self, brokers: int, allowed: int) -> None:
        detection = Detection(brokers)
        detection.serve()
        for broker_id in detection.brokers:
            detection.die(broker_id)
        detection.pass_time(SESSION - 1)
        assert len(detection.fences) == allowed

    def test_brokers_fenced_one_after_the_other_count_together(self) -> None:
        detection = Detection()
        detection.serve()
        detection.die(2)
        detection.pass_time(SESSION / 2)
        detection.die(3)
        detection.pass_time(SESSION / 2 - 1)
        assert detection.fenced_ids == [2]

    def test_unfenced_broker_with_the_same_epoch_still_counts(self) -> None:
        """They were never dead: what this controller took for proof was none."""
        detection = Detection()
        detection.serve()
        detection.die(2)
        detection.pass_time(1)
        detection.brokers[2] = broker(2)
        detection.ports.clear()
        detection.beat(2, connection=22)
        detection.die(3)
        detection.pass_time(1)
        assert detection.fenced_ids == [2]
        # The same one again is no other.
        detection.die(2, connection=22)
        detection.pass_time(1)
        assert detection.fenced_ids == [2, 2]

    def test_restarted_broker_does_not_count(self) -> None:
        detection = Detection()
        detection.serve()
        detection.die(2)
        detection.pass_time(1)
        detection.brokers[2] = broker(2, epoch=20, fenced=True)
        detection.die(3)
        detection.pass_time(1)
        # Until it serves again two of three would be away.
        assert detection.fenced_ids == [2]
        detection.ports.clear()
        detection.brokers[2] = broker(2, epoch=20)
        detection.beat(2, connection=22)
        detection.beat(3, connection=33)
        detection.die(3, connection=33)
        detection.pass_time(1)
        assert detection.fenced_ids == [2, 3]

    def test_count_restarts_after_a_session_timeout(self) -> None:
        detection = Detection()
        detection.serve()
        detection.die(2)
        detection.pass_time(1)
        detection.brokers[2] = broker(2)
        detection.ports.clear()
        detection.beat(2, connection=22)
        detection.pass_time(SESSION)
        detection.die(3)
        detection.pass_time(1)
        assert detection.fenced_ids == [2, 3]


def on_hosts(*sizes: int) -> Detection:
    """Host a with as many brokers as the first number, b with as many as the second, and so on."""
    hosts = [name for name, size in zip("abcdefgh", sizes, strict=False) for _ in range(size)]
    detection = Detection(len(hosts))
    for broker_id, host in enumerate(hosts, start=1):
        detection.brokers[broker_id] = broker(broker_id, host=host)
    detection.serve()
    return detection


class TestHosts:
    def test_host_that_dies_with_most_brokers_is_a_minority_of_three_hosts(self) -> None:
        detection = on_hosts(4, 1, 1)
        died_at = detection.now
        for broker_id in (1, 2, 3, 4):
            detection.die(broker_id)
        detection.pass_time(1)
        assert sorted(detection.fenced_ids) == [1, 2, 3, 4]
        assert all(moment < died_at + TO_FENCE + 0.01 for moment, _ in detection.fences)

    def test_second_host_is_not_a_minority_any_more(self) -> None:
        detection = on_hosts(4, 1, 1)
        for broker_id in (1, 2, 3, 4, 5):
            detection.die(broker_id)
        detection.pass_time(SESSION - 1)
        assert sorted(detection.fenced_ids) == [1, 2, 3, 4]

    def test_single_brokers_of_several_hosts_count_as_parts_of_their_hosts(self) -> None:
        detection = on_hosts(4, 4, 4)
        for broker_id in (1, 5, 9):
            detection.die(broker_id)
        detection.pass_time(1)
        assert sorted(detection.fenced_ids) == [1, 5, 9]

    def test_less_than_half_of_all_hosts_is_fenced(self) -> None:
        detection = on_hosts(4, 4, 4)
        for broker_id in detection.brokers:
            detection.die(broker_id)
        detection.pass_time(SESSION - 1)
        assert len(detection.fences) == 5

    @pytest.mark.parametrize(("sizes", "allowed"), [((3, 1), 1), ((4,), 1), ((5, 2), 3)])
    def test_on_fewer_than_three_hosts_processes_count(self, sizes: tuple[int, ...], allowed: int) -> None:
        detection = on_hosts(*sizes)
        for broker_id in range(1, sizes[0] + 1):
            detection.die(broker_id)
        detection.pass_time(SESSION - 1)
        assert len(detection.fences) == allowed

    def test_host_of_the_active_controller_dies(self) -> None:
        """The next active controller has received no heartbeat of these brokers."""
        detection = Detection(5)
        for broker_id, host in enumerate("aaabc", start=1):
            detection.brokers[broker_id] = broker(broker_id, host=host)
        for broker_id in (1, 2, 3):
            detection.ports[broker_id] = ProbeResult.REFUSED
        detection.activate()
        detection.beat(4)
        detection.beat(5)
        detection.pass_time(2 * GRACE + 0.05)
        assert sorted(detection.fenced_ids) == [1, 2, 3]

    def test_broker_without_a_known_endpoint_is_a_host_of_its_own(self) -> None:
        detection = on_hosts(2, 1, 1)
        for broker_id in (3, 4):
            endpoints = (endpoint("A", 1), endpoint("B", 2))
            detection.brokers[broker_id] = replace(detection.brokers[broker_id], endpoints=endpoints)
        detection.die(1)
        detection.die(2)
        detection.pass_time(1)
        assert sorted(detection.fenced_ids) == [1, 2]


def test_grace_period_of_zero_disables_the_detection() -> None:
    detection = Detection(grace=0)
    detection.serve()
    detection.die(2)
    detection.pass_time(100)
    assert (detection.probes, detection.fences) == ([], [])
    assert detection.detector.step(Activated(), detection.now) == ()


happenings = st.one_of(
    st.tuples(st.just("pass"), st.floats(0.001, 0.5)),
    st.tuples(st.just("stall"), st.floats(0.01, 0.5)),
    st.tuples(
        st.sampled_from(["close", "beat", "open", "shut", "unreachable", "restart"]), st.sampled_from([1, 2, 3, 4, 5])
    ),
    st.tuples(st.sampled_from(["lose", "regain"]), st.just(0)),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(happenings, max_size=40))
def test_reachable_broker_is_never_fenced(life: list[tuple[str, float]]) -> None:
    """A fenced broker was unresponsive and refused connections for at least the grace period."""
    detection = Detection(5)
    last_sign = dict.fromkeys(detection.brokers, detection.now)

    def check(fence: FenceBroker) -> None:
        assert detection.ports.get(fence.broker_id) is ProbeResult.REFUSED
        assert detection.now - last_sign[fence.broker_id] >= GRACE
        assert fence.broker_epoch == detection.brokers[fence.broker_id].epoch
        assert detection.has_majority
        recently = {one.broker_id for moment, one in detection.fences if moment > detection.now - SESSION}
        assert len(recently) <= 2
        detection.brokers[fence.broker_id] = broker(fence.broker_id, fence.broker_epoch, fenced=True)

    detection.on_fence = check
    detection.serve()
    for number, (what, value) in enumerate(life):
        broker_id = int(value)
        match what:
            case "pass":
                detection.pass_time(value)
            case "stall":
                detection.stall(value)
            case "close":
                detection.happen(ConnectionClosed(broker_id, by_us=False))
            case "beat":
                last_sign[broker_id] = detection.now
                detection.beat(broker_id)
            case "shut" if detection.ports.get(broker_id) is not ProbeResult.REFUSED:
                last_sign[broker_id] = detection.now
                detection.ports[broker_id] = ProbeResult.REFUSED
            case "open" | "unreachable":
                detection.ports[broker_id] = ProbeResult.CONNECTED if what == "open" else ProbeResult.UNREACHABLE
            case "restart":
                last_sign[broker_id] = detection.now
                detection.brokers[broker_id] = broker(broker_id, epoch=100 + number)
            case "lose" | "regain":
                detection.has_majority = what == "regain"
            case _:
                pass
