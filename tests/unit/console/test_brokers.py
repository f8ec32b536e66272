from odradek.console.readings.brokers import UNREGISTER, broker_rows, disk_rows, hosted_rows, skew_sentence
from odradek.console.readings.overview import overview_rows
from odradek.console.readings.table import Cell, Tone
from tests.unit.console.snapshots import log_dir, partition, snapshot, topic

SEEN = snapshot(
    topic("orders", partition(0, (1, 2)), partition(1, (1, 3), isr=(1,))),
    down=(3,),
    disks={1: (log_dir(orders_0=3000, orders_1=500),), 2: (log_dir(orders_0=3000),)},
    down_since_ms={3: 1_000_000},
)


def test_broker_rows_show_leaders_replicas_disk_and_state() -> None:
    rows = {row.key: row for row in broker_rows(SEEN)}
    assert list(rows) == ["1", "2", "3"]
    assert (rows["1"].text("leaders"), rows["1"].text("replicas"), rows["1"].text("disk")) == ("2", "2", "3.5 kB")
    assert rows["3"].text("disk") == "unknown"
    state = rows["3"].cells["state"]
    assert isinstance(state, Cell)
    assert state.tone is Tone.BAD
    assert state.text.startswith("fenced since ")


def test_only_a_fenced_broker_can_be_unregistered() -> None:
    assert [row.key for row in broker_rows(SEEN) if UNREGISTER in row.actions] == ["3"]


def test_unregistered_broker_is_shown_while_replicas_are_assigned_to_it() -> None:
    rows = broker_rows(snapshot(topic("orders", partition(0, (9, 1)))))
    assert [row.key for row in rows] == ["1", "2", "3", "9"]
    assert rows[-1].text("state") == "not registered"


def test_skew_counts_only_online_brokers() -> None:
    assert skew_sentence(SEEN) == (
        "Difference between the most and the least loaded broker: 2 leaders, 1 replica, 500 B."
    )


def test_hosted_partitions_are_sorted_by_size_and_disks_show_free_space() -> None:
    rows = hosted_rows(SEEN, 1)
    assert [(row.key, row.text("role"), row.text("size")) for row in rows] == [
        ("orders-0", "leader", "3.0 kB"),
        ("orders-1", "leader", "500 B"),
    ]
    (disk,) = disk_rows(SEEN, 1)
    assert (disk.text("stored"), disk.text("free"), disk.text("total")) == ("3.5 kB", "600 B", "1.0 kB")


def test_overview_counts_under_replicated_and_offline_partitions() -> None:
    rows = {row.key: row for row in overview_rows(SEEN)}
    assert rows["brokers"].text("value") == "2 of 3"
    assert rows["under-replicated"].text("value") == "1"
    assert rows["under-replicated"].text("detail") == "orders-1"
    assert rows["offline"].text("value") == "0"
    assert rows["stored"].text("value") == "6.5 kB"
