from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.console.readings.health import health_of
from odradek.console.readings.refusals import explain
from odradek.console.readings.table import Tone
from tests.unit.console.sights import partition, sight, topic


def test_a_cluster_with_every_replica_in_sync_is_well() -> None:
    health = health_of(sight(topic("orders", partition(0, (1, 2, 3)), partition(1, (2, 3, 1)))))
    assert health.tone is Tone.GOOD
    assert health.sentence == "Healthy: 3 brokers, 2 partitions, all replicas in sync."


def test_a_missing_replica_is_a_warning_with_the_broker_that_is_missing() -> None:
    seen = sight(topic("orders", partition(0, (1, 2, 3), isr=(1, 2))), down=(3,), min_isr={"orders": 2})
    health = health_of(seen)
    assert health.tone is Tone.WARNING
    assert "1 partition is under-replicated (orders-0) because broker 3 is down." in health.sentence


def test_below_min_isr_is_bad_even_though_reads_go_on() -> None:
    seen = sight(topic("orders", partition(0, (1, 2, 3), isr=(1,))), down=(2, 3), min_isr={"orders": 2})
    health = health_of(seen)
    assert health.tone is Tone.BAD
    assert "acks=all" in health.sentence
    assert "broker 2 is down, broker 3 is down" in health.sentence


def test_nobody_waits_for_more_replicas_than_there_are() -> None:
    seen = sight(
        topic("orders", partition(0, (1,))), topic("moved", partition(0, (1, 2), isr=(1,))), min_isr={"moved": 3}
    )
    health = health_of(seen)
    assert "1 partition rejects writes with acks=all, being below min.insync.replicas (moved-0)" in health.sentence
    assert seen.needed_in_sync("moved", partition(0, (1,))) == 1


def test_a_partition_without_leader_comes_before_all_else() -> None:
    seen = sight(topic("orders", partition(0, (3,), isr=(3,), leader=-1)), down=(3,))
    health = health_of(seen)
    assert health.tone is Tone.BAD
    assert health.sentence.startswith("1 partition cannot be read or written (orders-0)")


def test_a_broker_that_holds_nothing_may_be_down_without_harm() -> None:
    health = health_of(sight(topic("orders", partition(0, (1, 2))), down=(3,)))
    assert health.tone is Tone.WARNING
    assert health.sentence == "All partitions are online, but broker 3 is down."


def test_a_refusal_names_the_rule_the_value_and_the_broker() -> None:
    seen = sight(topic("orders", partition(0, (1, 2, 3), isr=(1,))), down=(2, 3), min_isr={"orders": 2})
    told = explain(KafkaError(ErrorCode.not_enough_replicas), seen, TopicPartition("orders", 0))
    assert "NOT_ENOUGH_REPLICAS" in told
    assert "orders-0 has 1 of the 2 in-sync replicas that min.insync.replicas requires" in told
    assert "because broker 2 is down, broker 3 is down" in told


def test_what_the_cluster_says_is_shown_without_obeying_it() -> None:
    told = explain(KafkaError(ErrorCode.invalid_config, "bad\x1b[31m <b>value</b>"))
    assert "\x1b" not in told
    assert "\\x1b[31m <b>value</b>" in told
    assert told.endswith("Change the value and try again.")
