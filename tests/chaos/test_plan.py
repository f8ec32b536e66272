"""A seed determines the plan, every round contains every kind, and unsupported faults are excluded."""

from tests.chaos.plan import DISK_FAULTS, NETWORK_FAULTS, FaultKind, Plan

BROKERS = (1, 2, 3, 4, 5)
SMALL, SLOW = (3, 5), (2, 4)


def test_same_seed_gives_the_same_plan() -> None:
    assert Plan(7, BROKERS, 6, (3,)).first(50) == Plan(7, BROKERS, 6, (3,)).first(50)
    assert Plan(7, BROKERS, 6, (3,)).first(50) != Plan(8, BROKERS, 6, (3,)).first(50)


def test_each_round_contains_every_kind_once() -> None:
    faults = Plan(7, BROKERS, 6, SMALL, SLOW).first(2 * len(FaultKind))
    assert {fault.kind for fault in faults[: len(FaultKind)]} == set(FaultKind)
    assert {fault.kind for fault in faults[len(FaultKind) :]} == set(FaultKind)


def test_only_small_disks_are_filled_and_only_slow_disks_are_slowed() -> None:
    faults = Plan(7, BROKERS, 6, SMALL, SLOW).first(200)
    assert {fault.node for fault in faults if fault.kind is FaultKind.FILL_DISK} == set(SMALL)
    assert {fault.node for fault in faults if fault.kind is FaultKind.SLOW_DISK} == set(SLOW)


def test_unsupported_faults_are_excluded() -> None:
    kinds = {fault.kind for fault in Plan(7, BROKERS, 6, without=NETWORK_FAULTS).first(100)}
    assert kinds == set(FaultKind) - NETWORK_FAULTS - DISK_FAULTS - {FaultKind.SLOW_DISK}


def test_kills_hit_every_broker_and_sometimes_several_at_once() -> None:
    faults = [fault for fault, _ in zip(Plan(7, BROKERS, 6).kills(), range(200), strict=False)]
    assert {fault.kind for fault in faults} == {FaultKind.KILL, FaultKind.KILL_TWO, FaultKind.KILL_ALL}
    assert {fault.node for fault in faults} == set(BROKERS)


def test_reassignments_target_three_different_brokers() -> None:
    for fault in Plan(7, BROKERS, 6).first(200):
        for _, replicas in fault.reassignments:
            assert len(set(replicas)) == 3
        assert fault.node != fault.other
