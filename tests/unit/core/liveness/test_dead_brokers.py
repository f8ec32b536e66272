"""Every rule by which a broker is taken for dead before its session ends, and by which it is not."""

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
    ProbeResult,
    TimePassed,
)
from tests.unit.core.liveness.detection import GRACE, SESSION, Detection, broker, endpoint

TO_FENCE = GRACE + GRACE / 6
"""From the end of the connection: a moment for the port to close too, then the grace."""


class TestADeadProcess:
    def test_is_fenced_after_the_grace(self) -> None:
        detection = Detection()
        detection.serve()
        detection.pass_time(5)
        died_at = detection.now
        detection.die(2)
        detection.pass_time(SESSION)
        ((moment, fence),) = detection.fences
        assert died_at + TO_FENCE <= moment < died_at + TO_FENCE + 0.01
        assert (fence.broker_id, fence.broker_epoch, fence.unresponsive_since) == (2, 10, died_at)

    def test_is_knocked_at_from_the_first_moment_to_the_last(self) -> None:
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

    def test_nothing_goes_on_after_it(self) -> None:
        detection = Detection()
        detection.serve()
        detection.die(2)
        detection.pass_time(1)
        count = len(detection.probes)
        detection.pass_time(100)
        assert len(detection.probes) == count
        assert detection.machine.step(TimePassed(), detection.now) == ()

    def test_a_port_that_closes_a_little_later_than_the_connection_is_no_open_door(self) -> None:
        detection = Detection()
        detection.serve()
        detection.happen(ConnectionClosed(2, by_us=False))
        detection.pass_time(GRACE / 10)
        detection.door[2] = ProbeResult.REFUSED
        detection.pass_time(1)
        assert detection.fenced_ids == [2]

    def test_a_slow_refusal_is_a_refusal(self) -> None:
        detection = Detection()
        detection.latency = 0.12
        detection.serve()
        detection.die(2)
        detection.pass_time(1)
        assert detection.fenced_ids == [2]

    def test_the_inter_broker_endpoint_is_the_one_that_counts(self) -> None:
        detection = Detection()
        detection.brokers[2] = replace(
            detection.brokers[2], endpoints=(endpoint("EXTERNAL", 1), endpoint("PLAINTEXT", 2))
        )
        detection.serve()
        detection.die(2)
        detection.pass_time(GRACE / 6)
        assert [probe.endpoint.port for _, probe in detection.probes] == [2]

    def test_a_single_endpoint_needs_no_name(self) -> None:
        detection = Detection()
        detection.brokers[2] = replace(detection.brokers[2], endpoints=(endpoint("INTERNAL", 3),))
        detection.serve()
        detection.die(2)
        detection.pass_time(GRACE / 6)
        assert [probe.endpoint.port for _, probe in detection.probes] == [3]

    def test_of_several_strange_endpoints_none_proves_anything(self) -> None:
        detection = Detection()
        detection.brokers[2] = replace(detection.brokers[2], endpoints=(endpoint("A", 1), endpoint("B", 2)))
        detection.serve()
        detection.die(2)
        detection.pass_time(1)
        assert (detection.probes, detection.fences) == ([], [])


class TestAnythingButARefusal:
    @pytest.mark.parametrize("answer", [ProbeResult.CONNECTED, ProbeResult.UNREACHABLE])
    @pytest.mark.parametrize("moment", [0.0, 0.1, 0.29])
    def test_leaves_the_broker_to_its_session(self, answer: ProbeResult, moment: float) -> None:
        detection = Detection()
        detection.serve()
        detection.die(2)
        detection.pass_time(moment)
        detection.door[2] = answer
        detection.pass_time(0.2)
        # Too late: what was seen once cannot be unseen.
        detection.door[2] = ProbeResult.REFUSED
        detection.pass_time(SESSION)
        assert detection.fences == []

    def test_until_the_next_connection_breaks(self) -> None:
        detection = Detection()
        detection.serve()
        detection.happen(ConnectionClosed(2, by_us=False))
        detection.pass_time(1)
        detection.beat(2, connection=22)
        detection.die(2, connection=22)
        detection.pass_time(1)
        assert detection.fenced_ids == [2]

    def test_an_answer_to_an_older_knock_says_nothing(self) -> None:
        detection = Detection()
        detection.serve()
        detection.die(2)
        detection.pass_time(0.2)
        detection.happen(ProbeCompleted(2, 1, ProbeResult.CONNECTED))
        detection.pass_time(1)
        assert detection.fenced_ids == [2]


class TestAHeartbeat:
    @pytest.mark.parametrize("moment", [0.0, 0.15, 0.3])
    def test_ends_the_suspicion(self, moment: float) -> None:
        detection = Detection()
        detection.serve()
        detection.die(2)
        detection.pass_time(moment)
        detection.beat(2, connection=22)
        detection.pass_time(SESSION)
        assert detection.fences == []
        assert detection.machine.suspected_ids == ()

    def test_of_an_older_registration_does_not(self) -> None:
        detection = Detection()
        detection.serve()
        detection.die(2)
        detection.happen(HeartbeatAccepted(2, 9, 22))
        detection.pass_time(1)
        assert detection.fenced_ids == [2]

    def test_only_the_connection_of_the_last_one_matters(self) -> None:
        detection = Detection()
        detection.serve()
        detection.beat(2, connection=22)
        detection.door[2] = ProbeResult.REFUSED
        detection.happen(ConnectionClosed(2, by_us=False))
        detection.pass_time(1)
        assert detection.probes == []

    def test_from_within_the_process_has_no_connection_to_lose(self) -> None:
        detection = Detection(own_id=2)
        detection.activate()
        detection.happen(HeartbeatAccepted(2, 10, None))
        detection.door[2] = ProbeResult.REFUSED
        detection.beat(1)
        detection.beat(3)
        detection.pass_time(2)
        assert detection.probes == []


class TestAConnection:
    def test_that_the_controller_closed_proves_nothing(self) -> None:
        detection = Detection()
        detection.serve()
        detection.door[2] = ProbeResult.REFUSED
        detection.happen(ConnectionClosed(2, by_us=True))
        # The other end notices too, later.
        detection.happen(ConnectionClosed(2, by_us=False))
        detection.pass_time(1)
        assert detection.probes == []

    def test_of_somebody_else_neither(self) -> None:
        detection = Detection()
        detection.serve()
        detection.happen(ConnectionClosed(77, by_us=False))
        assert detection.machine.suspected_ids == ()

    def test_of_a_broker_that_is_fenced_neither(self) -> None:
        detection = Detection()
        detection.brokers[2] = broker(2, fenced=True)
        detection.serve()
        detection.die(2)
        detection.pass_time(1)
        assert detection.probes == []


class TestARegistration:
    @pytest.mark.parametrize("moment", [0.0, 0.1, 0.29])
    def test_that_is_replaced_takes_the_suspicion_with_it(self, moment: float) -> None:
        detection = Detection()
        detection.serve()
        detection.die(2)
        detection.pass_time(moment)
        detection.brokers[2] = broker(2, epoch=11)
        detection.pass_time(SESSION)
        assert detection.fences == []

    @pytest.mark.parametrize("is_fenced", [True, False])
    def test_that_is_gone_or_fenced_by_its_session_too(self, is_fenced: bool) -> None:
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
        assert detection.machine.suspected_ids == ()

    def test_the_fence_names_the_one_that_was_probed(self) -> None:
        detection = Detection()
        detection.brokers[2] = broker(2, epoch=77)
        detection.serve()
        detection.die(2)
        detection.pass_time(1)
        assert [fence.broker_epoch for _, fence in detection.fences] == [77]


class TestAfterActivation:
    def test_a_dead_broker_is_suspected_when_the_grace_is_over(self) -> None:
        detection = Detection()
        detection.door[2] = ProbeResult.REFUSED
        detection.activate()
        detection.beat(1)
        detection.beat(3)
        detection.pass_time(GRACE - 0.01)
        assert detection.probes == []
        detection.pass_time(GRACE - 0.01)
        assert detection.fences == []
        detection.pass_time(0.03)
        assert detection.fenced_ids == [2]

    def test_a_living_one_that_has_not_heard_of_it_yet_is_not_fenced(self) -> None:
        detection = Detection()
        detection.activate()
        detection.pass_time(SESSION)
        assert detection.probes
        assert detection.fences == []

    def test_whoever_is_heard_of_is_not_even_knocked_at(self) -> None:
        detection = Detection()
        detection.activate()
        detection.pass_time(GRACE / 2)
        detection.all_beat()
        detection.pass_time(1)
        assert detection.probes == []

    def test_the_controllers_own_broker_is_above_suspicion(self) -> None:
        detection = Detection(own_id=2)
        detection.door[2] = ProbeResult.REFUSED
        detection.activate()
        detection.pass_time(1)
        assert 2 not in {probe.broker_id for _, probe in detection.probes}

    def test_brokers_that_are_fenced_already_may_have_been_so_a_moment_ago(self) -> None:
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


class TestALoopThatStandsStill:
    @pytest.mark.parametrize("moment", [0.01, 0.149, 0.29])
    def test_for_more_than_half_the_grace_makes_it_begin_anew(self, moment: float) -> None:
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

    def test_again_and_again_never_fences(self) -> None:
        detection = Detection()
        detection.serve()
        detection.die(2)
        for _ in range(50):
            detection.pass_time(0.28)
            detection.stall(GRACE * 0.6)
        assert detection.fences == []

    def test_hears_the_heartbeat_that_lay_unread(self) -> None:
        detection = Detection()
        detection.serve()
        detection.die(2)
        detection.pass_time(0.29)
        detection.stall(30)
        detection.happen(TimePassed())
        detection.beat(2, connection=22)
        detection.pass_time(1)
        assert detection.fences == []

    def test_does_not_count_a_knock_that_it_let_time_out(self) -> None:
        detection = Detection()
        detection.serve()
        detection.die(2)
        detection.pass_time(GRACE / 6)
        attempt = detection.probes[-1][1].attempt
        detection.stall(1)
        detection.happen(ProbeCompleted(2, attempt, ProbeResult.UNREACHABLE))
        detection.pass_time(1)
        assert detection.fenced_ids == [2]

    def test_right_after_activation_gives_everybody_the_grace_again(self) -> None:
        detection = Detection()
        detection.door[2] = ProbeResult.REFUSED
        detection.activate()
        detection.stall(GRACE * 3)
        detection.happen(TimePassed())
        assert detection.probes == []
        detection.pass_time(GRACE - 0.01)
        assert detection.probes == []

    def test_for_less_is_of_no_account(self) -> None:
        detection = Detection()
        detection.serve()
        detection.die(2)
        died_at = detection.now
        detection.pass_time(0.1)
        detection.stall(GRACE * 0.4)
        detection.pass_time(1)
        ((fenced_at, _),) = detection.fences
        assert fenced_at < died_at + TO_FENCE + 0.02

    def test_while_nobody_is_suspected_is_of_no_account(self) -> None:
        detection = Detection()
        detection.serve()
        detection.stall(100)
        detection.die(2)
        died_at = detection.now
        detection.pass_time(1)
        ((fenced_at, _),) = detection.fences
        assert fenced_at < died_at + TO_FENCE + 0.02


class TestAControllerWithoutItsMajority:
    def test_waits_and_goes_on_knocking(self) -> None:
        detection = Detection()
        detection.serve()
        detection.has_majority = False
        detection.die(2)
        detection.pass_time(2)
        assert detection.fences == []
        assert set(detection.asked_within) == {GRACE, GRACE / 2}
        detection.has_majority = True
        detection.pass_time(GRACE / 6 + 0.01)
        assert detection.fenced_ids == [2]

    def test_rouses_voters_that_wait_for_news_so_that_none_is_late(self) -> None:
        detection = Detection()
        detection.serve()
        detection.fetched_at = detection.now
        detection.die(2)
        died_at = detection.now
        detection.pass_time(1)
        ((fenced_at, _),) = detection.fences
        assert fenced_at < died_at + TO_FENCE + 0.02
        assert detection.roused == 1

    def test_but_only_once_and_only_if_it_must(self) -> None:
        detection = Detection(5)
        detection.serve()
        detection.has_majority = False
        detection.die(2)
        detection.pass_time(2)
        assert detection.roused == 1
        detection.has_majority = True
        detection.pass_time(SESSION)
        detection.die(3)
        detection.pass_time(1)
        assert detection.fenced_ids == [2, 3]
        assert detection.roused == 1

    def test_and_lets_go_of_a_door_that_opens_meanwhile(self) -> None:
        detection = Detection()
        detection.serve()
        detection.has_majority = False
        detection.die(2)
        detection.pass_time(2)
        del detection.door[2]
        detection.pass_time(0.1)
        detection.has_majority = True
        detection.door[2] = ProbeResult.REFUSED
        detection.pass_time(2)
        assert detection.fences == []


class TestAMinority:
    @pytest.mark.parametrize(("brokers", "allowed"), [(1, 0), (2, 0), (3, 1), (4, 1), (5, 2), (6, 2), (7, 3)])
    def test_is_all_that_falls_in_one_session(self, brokers: int, allowed: int) -> None:
        detection = Detection(brokers)
        detection.serve()
        for broker_id in detection.brokers:
            detection.die(broker_id)
        detection.pass_time(SESSION - 1)
        assert len(detection.fences) == allowed

    def test_counts_also_those_that_fell_one_after_the_other(self) -> None:
        detection = Detection()
        detection.serve()
        detection.die(2)
        detection.pass_time(SESSION / 2)
        detection.die(3)
        detection.pass_time(SESSION / 2 - 1)
        assert detection.fenced_ids == [2]

    def test_and_those_that_are_heard_of_again_under_the_same_registration(self) -> None:
        """They were never dead: what this controller took for proof was none."""
        detection = Detection()
        detection.serve()
        detection.die(2)
        detection.pass_time(1)
        detection.brokers[2] = broker(2)
        detection.door.clear()
        detection.beat(2, connection=22)
        detection.die(3)
        detection.pass_time(1)
        assert detection.fenced_ids == [2]
        # The same one again is no other.
        detection.die(2, connection=22)
        detection.pass_time(1)
        assert detection.fenced_ids == [2, 2]

    def test_but_not_those_that_came_back_as_new_processes(self) -> None:
        detection = Detection()
        detection.serve()
        detection.die(2)
        detection.pass_time(1)
        detection.brokers[2] = broker(2, epoch=20, fenced=True)
        detection.die(3)
        detection.pass_time(1)
        # Until it serves again two of three would be away.
        assert detection.fenced_ids == [2]
        detection.door.clear()
        detection.brokers[2] = broker(2, epoch=20)
        detection.beat(2, connection=22)
        detection.beat(3, connection=33)
        detection.die(3, connection=33)
        detection.pass_time(1)
        assert detection.fenced_ids == [2, 3]

    def test_after_a_session_timeout_the_count_begins_anew(self) -> None:
        detection = Detection()
        detection.serve()
        detection.die(2)
        detection.pass_time(1)
        detection.brokers[2] = broker(2)
        detection.door.clear()
        detection.beat(2, connection=22)
        detection.pass_time(SESSION)
        detection.die(3)
        detection.pass_time(1)
        assert detection.fenced_ids == [2, 3]


def test_a_grace_of_zero_switches_all_of_it_off() -> None:
    detection = Detection(grace=0)
    detection.serve()
    detection.die(2)
    detection.pass_time(100)
    assert (detection.probes, detection.fences) == ([], [])
    assert detection.machine.step(Activated(), detection.now) == ()


happenings = st.one_of(
    st.tuples(st.just("pass"), st.floats(0.001, 0.5)),
    st.tuples(st.just("stall"), st.floats(0.01, 0.5)),
    st.tuples(
        st.sampled_from(["close", "beat", "open", "shut", "silent", "restart"]), st.sampled_from([1, 2, 3, 4, 5])
    ),
    st.tuples(st.sampled_from(["lose", "regain"]), st.just(0)),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(happenings, max_size=40))
def test_a_broker_that_can_be_reached_is_never_fenced(life: list[tuple[str, float]]) -> None:
    """Whoever is fenced was silent, shut and of the same registration for at least the grace; and few are."""
    detection = Detection(5)
    last_sign = dict.fromkeys(detection.brokers, detection.now)

    def check(fence: FenceBroker) -> None:
        assert detection.door.get(fence.broker_id) is ProbeResult.REFUSED
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
            case "shut" if detection.door.get(broker_id) is not ProbeResult.REFUSED:
                last_sign[broker_id] = detection.now
                detection.door[broker_id] = ProbeResult.REFUSED
            case "open" | "silent":
                detection.door[broker_id] = ProbeResult.CONNECTED if what == "open" else ProbeResult.UNREACHABLE
            case "restart":
                last_sign[broker_id] = detection.now
                detection.brokers[broker_id] = broker(broker_id, epoch=100 + number)
            case "lose" | "regain":
                detection.has_majority = what == "regain"
            case _:
                pass
