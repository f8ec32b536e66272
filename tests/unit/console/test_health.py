from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.console.readings.health import health_of
from odradek.console.readings.refusals import explain
from odradek.console.readings.table import Tone
from tests.unit.console.snapshots import partition, snapshot, topic


def test_cluster_with_all_replicas_in_sync_is_healthy() -> None:
    health = health_of(snapshot(topic("orders", partition(0, (1, 2, 3)), partition(1, (2, 3, 1)))))
    assert health.tone is Tone.GOOD
    assert health.sentence == "Healthy: 3 brokers, 2 partitions, all replicas in sync."


def test_under_replicated_partition_is_a_warning_that_names_the_broker() -> None:
    seen = snapshot(topic("orders", partition(0, (1, 2, 3), isr=(1, 2))), down=(3,), min_isr={"orders": 2})
    health = health_of(seen)
    assert health.tone is Tone.WARNING
    assert "1 partition is under-replicated (orders-0) because broker 3 is down." in health.sentence


def test_partition_below_min_isr_is_an_error() -> None:
    seen = snapshot(topic("orders", partition(0, (1, 2, 3), isr=(1,))), down=(2, 3), min_isr={"orders": 2})
    health = health_of(seen)
    assert health.tone is Tone.BAD
    assert "acks=all" in health.sentence
    assert "broker 2 is down, broker 3 is down" in health.sentence


def test_required_in_sync_replicas_never_exceed_the_replication_factor() -> None:
    seen = snapshot(
        topic("orders", partition(0, (1,))), topic("moved", partition(0, (1, 2), isr=(1,))), min_isr={"moved": 3}
    )
    health = health_of(seen)
    assert "1 partition rejects writes with acks=all, being below min.insync.replicas (moved-0)" in health.sentence
    assert seen.needed_in_sync("moved", partition(0, (1,))) == 1


def test_partition_without_leader_is_reported_first() -> None:
    seen = snapshot(topic("orders", partition(0, (3,), isr=(3,), leader=-1)), down=(3,))
    health = health_of(seen)
    assert health.tone is Tone.BAD
    assert health.sentence.startswith("1 partition cannot be read or written (orders-0)")


def test_down_broker_without_replicas_is_only_a_warning() -> None:
    health = health_of(snapshot(topic("orders", partition(0, (1, 2))), down=(3,)))
    assert health.tone is Tone.WARNING
    assert health.sentence == "All partitions are online, but broker 3 is down."


def test_explained_error_names_config_value_and_broker() -> None:
    seen = snapshot(topic("orders", partition(0, (1, 2, 3), isr=(1,))), down=(2, 3), min_isr={"orders": 2})
    explanation = explain(KafkaError(ErrorCode.not_enough_replicas), seen, TopicPartition("orders", 0))
    assert "NOT_ENOUGH_REPLICAS" in explanation
    assert "orders-0 has 1 of the 2 in-sync replicas that min.insync.replicas requires" in explanation
    assert "because broker 2 is down, broker 3 is down" in explanation


def test_error_messages_of_the_cluster_are_escaped() -> None:
    explanation = explain(KafkaError(ErrorCode.invalid_config, "bad\x1b[31m <b>value</b>"))
    assert "\x1b" not in explanation
    assert "\\x1b[31m <b>value</b>" in explanation
    assert explanation.endswith("Change the value and try again.")
