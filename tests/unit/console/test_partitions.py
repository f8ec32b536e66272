from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.client.reassignment_plan import PlannedReassignment
from odradek.client.reassignment_progress import ProgressMeter, ReassignmentState
from odradek.client.reassignments import Reassignment
from odradek.client.replica_state import Eligible
from odradek.client.traffic import HotKey, Rates, Traffic
from odradek.console.actions.action import Refused
from odradek.console.actions.reassignments import _result_sentence
from odradek.console.queries.partitions import ReplicaStates
from odradek.console.readings.partitions import (
    CANCEL,
    ELECT,
    REASSIGN,
    Order,
    cost_sentence,
    map_columns,
    map_page,
    progress_rows,
    progress_sentence,
)
from tests.unit.console.snapshots import log_dir, partition, snapshot, topic

FIRST = TopicPartition("orders", 0)


def test_partition_map_shows_leader_in_sync_and_lagging_replicas() -> None:
    seen = snapshot(
        topic("orders", partition(0, (1, 2, 3), isr=(1, 2)), partition(1, (2, 1), leader=1)),
        disks={1: (log_dir(orders_0=2000),)},
    )
    assert [column.label for column in map_columns(seen)] == [
        "Partition",
        "State",
        "Broker 1",
        "Broker 2",
        "Broker 3",
        "Written/s",
    ]
    first, second = map_page(seen, search="", only_problems=False, page=1).items
    assert [first.text(name) for name in ("state", "broker-1", "broker-2", "broker-3")] == [
        "2 of 3 in sync",
        "leader, 2.0 kB",
        "in sync",
        "behind",
    ]
    assert (second.text("state"), second.text("broker-3")) == ("led by 1 instead of 2", "")
    assert (first.actions, second.actions) == ((REASSIGN,), (ELECT, REASSIGN))


def test_partition_map_shows_lag_and_eligible_leaders() -> None:
    seen = snapshot(topic("orders", partition(0, (1, 2, 3, 4), isr=(1, 4))), brokers=4, down=(3,))
    near = ReplicaStates(
        eligible={FIRST: Eligible(leaders=(2,), last_known=(3,))}, ends={1: {FIRST: 1000}, 2: {FIRST: 400}, 4: {}}
    )
    (row,) = map_page(seen, search="", only_problems=False, page=1, near=near).items
    assert [row.text(f"broker-{broker}") for broker in (1, 2, 3, 4)] == [
        "leader",
        "behind, lag 600, eligible leader (ELR)",
        "down, last known ELR",
        "in sync",
    ]


def test_hot_partition_shows_its_share_and_hot_keys() -> None:
    partitions = [partition(number, (1,)) for number in range(4)]
    rates = {FIRST: Rates(bytes_in=9000.0), TopicPartition("orders", 1): Rates(bytes_in=1000.0)}
    keys = {FIRST: (HotKey(b"<b>\x07", 0.8), HotKey(None, 0.3), HotKey(b"cold", 0.1))}
    seen = snapshot(topic("orders", *partitions), traffic=Traffic(rates={1: rates}, hot_keys=keys, unavailable={}))
    page = map_page(seen, search="", only_problems=False, page=1, order=Order.HEAT)
    assert [row.key for row in page.items] == ["orders-0", "orders-1", "orders-2", "orders-3"]
    assert [row.text("written") for row in page.items[:3]] == [
        "hot: 9.0 kB, 90% of all bytes in; key <b>\\x07 is 80%, records without a key are 30% of it",
        "1.0 kB",
        "0 B",
    ]


def test_partition_map_filters_unhealthy_partitions_and_names() -> None:
    seen = snapshot(
        topic("orders", partition(0, (1, 2)), partition(1, (1, 2), isr=(1,))), topic("x", partition(0, (1,)))
    )
    assert [row.key for row in map_page(seen, search="", only_problems=True, page=1).items] == ["orders-1"]
    assert [row.key for row in map_page(seen, search="X", only_problems=False, page=1).items] == ["x-0"]


def test_reassigning_partition_can_only_be_cancelled() -> None:
    reassignment = Reassignment(partition=FIRST, replicas=(1, 2, 3), adding=(3,), removing=(1,))
    seen = snapshot(topic("orders", partition(0, (1, 2, 3), isr=(1, 2))), reassignments=(reassignment,))
    (row,) = map_page(seen, search="", only_problems=False, page=1).items
    assert (row.text("state"), row.text("broker-3"), row.actions) == ("reassigning", "adding", (CANCEL,))


def test_reassignment_progress_shows_rate_and_time_left() -> None:
    reassignment = Reassignment(partition=FIRST, replicas=(1, 2, 3), adding=(3,), removing=(1,))
    meter = ProgressMeter()
    assert progress_sentence(ProgressMeter().sample([], 0.0)) == "No reassignments in progress."
    meter.sample([ReassignmentState(reassignment=reassignment, copied_bytes=0, total_bytes=10_000)], 1.0)
    seen = meter.sample([ReassignmentState(reassignment=reassignment, copied_bytes=4_000, total_bytes=10_000)], 3.0)
    assert progress_sentence(seen) == ("0 of 1 partition completed, 4.0 kB of 10.0 kB copied, 2.0 kB/s, 3.0 s left.")
    (row,) = progress_rows(seen.states)
    assert [row.text(name) for name in ("to", "adding", "removing", "percent")] == ["2, 3", "3", "1", "40 %"]
    assert progress_sentence(meter.sample([], 9.0)).startswith("No reassignments in progress: 1 partition completed")


def test_reassignment_cost_shows_bytes_and_duration() -> None:
    reassignment = PlannedReassignment(partition=FIRST, before=(1, 2), after=(3, 2), size_bytes=6_000_000)
    assert cost_sentence([reassignment], None) == "Reassigns 1 partition: 6.0 MB to copy."
    assert cost_sentence([reassignment], 1_000_000) == "Reassigns 1 partition: 6.0 MB to copy, 6.0 s at 1.0 MB/s."


def test_partial_refusals_are_reported_and_complete_refusal_raises() -> None:
    refused = {FIRST: KafkaError(ErrorCode.invalid_replica_assignment, "no broker 9")}
    outcome = _result_sentence(3, "being reassigned", refused)
    assert outcome.startswith(
        "2 partitions being reassigned. 1 of 3 partitions refused; orders-0: Rejected with INVALID_"
    )
    try:
        _result_sentence(1, "being reassigned", refused)
    except Refused as error:
        assert "no broker 9" in str(error)
    else:
        raise AssertionError("the refusal of all partitions was reported as a success")
