"""The life of a transactional id, command by command."""

import pytest

from odradek.base.errors import ErrorCode
from odradek.base.ids import TopicPartition
from odradek.core.transactions.commands import (
    AddPartitions,
    EndTransaction,
    InitProducerId,
    InitProducerIdResponse,
    ProducerIdentity,
    VerifyPartitions,
    VerifyPartitionsResponse,
)
from odradek.core.transactions.descriptions import describe, list_transactions
from odradek.core.transactions.settings import TransactionSettings
from tests.unit.core.transactions.transaction_harness import TransactionHarness

NONE = ErrorCode.none
FENCED = ErrorCode.producer_fenced
CONCURRENT = ErrorCode.concurrent_transactions
NO_STATE = ErrorCode.invalid_txn_state
UNMAPPED = ErrorCode.invalid_producer_id_mapping


def data(*indexes: int) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition("data", index) for index in indexes)


def test_transaction_version_2_increments_the_epoch_at_every_end() -> None:
    harness = TransactionHarness()
    producer = harness.init().producer
    assert producer == (1000, 0)
    assert harness.add(producer, 0, 1) is NONE
    assert harness.state() == "Ongoing"
    response = harness.end(producer)
    assert response.producer == (1000, 1)
    assert harness.state() == "PrepareCommit"
    markers = harness.markers[-1]
    assert markers[1:] == (1000, 1, 0, True, 2, data(0, 1))
    # The next transaction waits until the partitions know of this one's end.
    assert harness.add(response.producer, 0) is CONCURRENT
    harness.take(harness.coordinator.on_markers_written(markers, data(0), harness.now_ms))
    assert harness.state() == "PrepareCommit"
    harness.take(harness.coordinator.on_markers_written(markers, data(1), harness.now_ms))
    assert harness.state() == "CompleteCommit"
    assert harness.add(response.producer, 0) is NONE


def test_transaction_before_version_2_keeps_its_epoch() -> None:
    harness = TransactionHarness()
    producer = harness.init().producer
    assert harness.add(producer, 0, version=0) is NONE
    response = harness.end(producer, commits=False, version=0)
    assert response == (NONE, (-1, -1))
    assert harness.mark()[1:6] == (1000, 0, 0, False, 0)
    assert harness.state() == "CompleteAbort"
    assert harness.end(producer, commits=False, version=0).error is NONE
    assert harness.end(producer, commits=True, version=0).error is NO_STATE
    assert harness.add(producer, 0, version=0) is NONE


@pytest.mark.parametrize(
    ("state", "commits", "epoch", "expected"),
    [
        ("Empty", False, -1, FENCED),
        ("Empty", False, 0, NONE),
        ("Empty", True, -1, FENCED),
        ("Empty", True, 0, NO_STATE),
        ("CompleteAbort", False, -1, NONE),
        ("CompleteAbort", False, 0, NONE),
        ("CompleteAbort", True, -1, NO_STATE),
        ("CompleteAbort", True, 0, NO_STATE),
        ("CompleteCommit", False, -1, NO_STATE),
        ("CompleteCommit", False, 0, NONE),
        ("CompleteCommit", True, -1, NONE),
        ("CompleteCommit", True, 0, NO_STATE),
        ("PrepareCommit", True, -1, CONCURRENT),
        ("PrepareCommit", True, 0, CONCURRENT),
    ],
)
def test_end_without_an_open_transaction(state: str, commits: bool, epoch: int, expected: ErrorCode) -> None:
    """Kafka's table for transactions whose epochs rise: a repetition has the epoch before."""
    harness = TransactionHarness()
    producer = harness.init().producer
    if state == "Empty":
        producer = harness.init().producer
    else:
        harness.add(producer, 0)
        producer = harness.end(producer, commits=state != "CompleteAbort").producer
        if state != "PrepareCommit":
            harness.mark()
    assert harness.state() == state
    identity = ProducerIdentity(producer.producer_id, producer.producer_epoch + epoch)
    response = harness.end(identity, commits=commits)
    assert response.error is expected
    if expected is NONE:
        assert response.producer == (1000, producer.producer_epoch + (1 if epoch == 0 else 0))


def test_second_producer_fences_the_first_and_aborts_its_transaction() -> None:
    harness = TransactionHarness()
    first = harness.init().producer
    harness.add(first, 0)
    assert harness.init().error is CONCURRENT
    assert harness.state() == "PrepareAbort"
    assert harness.markers[-1].producer_epoch == 1
    assert harness.init().error is CONCURRENT
    harness.mark()
    second = harness.init().producer
    assert second == (1000, 2)
    assert harness.add(first, 0) is FENCED
    assert harness.end(first).error is FENCED
    assert harness.add(second, 0) is NONE


def test_producer_increments_its_epoch_and_may_repeat_the_request() -> None:
    harness = TransactionHarness()
    first = harness.init().producer
    raised = harness.init(expected=first).producer
    assert raised == (1000, 1)
    assert harness.init(expected=first).producer == raised, "the response was lost"
    assert harness.init(expected=raised).producer == (1000, 2)
    assert harness.init(expected=first).error is FENCED
    assert harness.init(expected=ProducerIdentity(4, 0)).error is FENCED
    other = harness.init().producer
    assert harness.init(expected=raised).error is FENCED, "another producer came since"
    assert harness.init(expected=other).error is NONE


def test_producer_of_an_expired_transactional_id_gets_a_new_id() -> None:
    assert TransactionHarness().init(expected=ProducerIdentity(77, 3)).producer == (1000, 0)


def _at_epoch(epoch: int) -> tuple[TransactionHarness, ProducerIdentity]:
    harness = TransactionHarness()
    harness.init()
    transaction = harness.coordinator.get("t")
    assert transaction is not None
    transaction.metadata = transaction.metadata._replace(producer_epoch=epoch)
    return harness, transaction.metadata.producer


def test_exhausted_epoch_rotates_the_producer_id_at_init() -> None:
    harness, producer = _at_epoch(32_766)
    assert harness.init(expected=producer).producer == (1001, 0)
    assert harness.init(expected=producer).producer == (1001, 0), "the response was lost"


def test_exhausted_epoch_rotates_the_producer_id_at_the_end() -> None:
    harness, producer = _at_epoch(32_766)
    harness.add(producer, 0)
    response = harness.end(producer)
    assert response.producer == (1001, 0)
    assert harness.markers[-1][1:3] == (1000, 32_767)
    assert harness.end(producer).error is UNMAPPED or harness.end(producer).error is CONCURRENT
    harness.mark()
    assert harness.end(producer) == response, "the response was lost"
    assert harness.add(response.producer, 0) is NONE


def test_missing_producer_id_changes_nothing() -> None:
    harness, producer = _at_epoch(32_766)
    harness.add(producer, 0)
    harness.ids_at_hand = False
    assert harness.end(producer).error is ErrorCode.coordinator_load_in_progress
    assert harness.state() == "Ongoing"
    assert harness.init("other").error is ErrorCode.coordinator_load_in_progress
    assert harness.coordinator.get("other") is None
    harness.ids_at_hand = True
    assert harness.end(producer).error is NONE


def test_verify_partitions() -> None:
    harness = TransactionHarness()
    producer = harness.init().producer
    harness.add(producer, 0)

    def verify(identity: ProducerIdentity, name: str = "t") -> VerifyPartitionsResponse:
        response = harness.execute(VerifyPartitions(name, *identity, data(0, 5)))
        assert isinstance(response, VerifyPartitionsResponse)
        return response

    response = verify(producer)
    assert response.of(TopicPartition("data", 0)) is NONE
    assert response.of(TopicPartition("data", 5)) is ErrorCode.transaction_abortable
    assert verify(ProducerIdentity(1000, 4)).error is FENCED
    assert verify(ProducerIdentity(4, 0)).error is UNMAPPED
    assert verify(producer, "other").error is UNMAPPED
    assert verify(producer, "").error is ErrorCode.invalid_request
    ended = harness.end(producer).producer
    assert verify(ended).error is CONCURRENT
    harness.mark()
    assert verify(ended).of(TopicPartition("data", 0)) is ErrorCode.transaction_abortable


def test_pending_transition_rejects_commands_with_concurrent_transactions() -> None:
    harness = TransactionHarness()
    producer = harness.init().producer
    harness.commits_at_once = False
    assert harness.execute(AddPartitions("t", *producer, data(0), 2)) is None
    assert harness.add(producer, 1) is CONCURRENT
    assert harness.init().error is CONCURRENT
    assert harness.end(producer).error is CONCURRENT
    assert harness.end(ProducerIdentity(1000, 9), version=0).error is FENCED
    assert harness.state() == "Empty"
    harness.commit()
    assert harness.state() == "Ongoing"
    assert harness.execute(EndTransaction("t", *producer, True, 2)) is None
    assert not harness.markers
    harness.commit()
    assert harness.markers


def test_failed_write_changes_nothing() -> None:
    harness = TransactionHarness()
    producer = harness.init().producer
    harness.failing = ErrorCode.not_enough_replicas
    assert harness.add(producer, 0) is ErrorCode.coordinator_not_available
    assert harness.state() == "Empty"
    harness.failing = ErrorCode.not_leader_or_follower
    assert harness.init().error is ErrorCode.not_coordinator
    harness.failing = None
    assert harness.init().producer == (1000, 1)


def test_completion_is_retried_until_it_is_written() -> None:
    harness = TransactionHarness()
    producer = harness.init().producer
    harness.add(producer, 0)
    harness.end(producer)
    harness.failing = ErrorCode.not_enough_replicas
    harness.mark()
    harness.pass_time(1_000)
    assert harness.state() == "PrepareCommit"
    harness.failing = None
    harness.pass_time(1_000)
    assert harness.state() == "CompleteCommit"


def test_late_and_unknown_markers_change_nothing() -> None:
    harness = TransactionHarness()
    producer = harness.init().producer
    harness.add(producer, 0)
    producer = harness.end(producer).producer
    first = harness.mark()
    harness.add(producer, 1)
    harness.end(producer)
    harness.mark(first)
    assert harness.state() == "PrepareCommit"
    harness.mark(harness.markers[-1]._replace(transactional_id="other"))
    harness.mark()
    assert harness.state() == "CompleteCommit"


@pytest.mark.parametrize("version", [0, 2])
def test_transaction_is_aborted_after_its_timeout(version: int) -> None:
    harness = TransactionHarness(version=version)
    producer = harness.init(timeout_ms=15_000).producer
    harness.add(producer, 0, version=version)
    harness.pass_time(14_000)
    assert harness.state() == "Ongoing"
    harness.pass_time(20_000)
    assert harness.state() == "PrepareAbort"
    assert harness.mark()[1:6] == (1000, 1, 0, False, version)
    assert harness.state() == "CompleteAbort"
    assert harness.end(producer, version=version).error is (NO_STATE if version == 2 else FENCED)
    assert harness.add(producer, 0, version=version) is FENCED


def test_failed_epoch_fence_does_not_increment_the_epoch_twice() -> None:
    harness = TransactionHarness(version=0)
    producer = harness.init().producer
    harness.add(producer, 0, version=0)
    harness.failing = ErrorCode.not_enough_replicas
    assert harness.init().error is ErrorCode.coordinator_not_available
    assert harness.end(producer, version=0).error is FENCED
    harness.failing = None
    assert harness.init().error is CONCURRENT
    assert harness.mark().producer_epoch == 1


def test_unused_transactional_ids_expire() -> None:
    harness = TransactionHarness(TransactionSettings(id_expiration_ms=7_200_000))
    producer = harness.init().producer
    harness.init("open")
    harness.add(ProducerIdentity(1001, 0), 0, name="open")
    harness.pass_time(3_600_000)
    harness.add(producer, 0)
    producer = harness.end(producer).producer
    harness.mark()
    harness.pass_time(7_100_000)
    assert harness.state()
    harness.pass_time(3_600_000)
    assert not harness.state()
    assert harness.state("open") == "PrepareAbort"
    assert harness.add(producer, 0) is UNMAPPED
    assert not harness.failover().state()


def test_failover_completes_prepared_transactions_and_keeps_open_ones() -> None:
    harness = TransactionHarness()
    for name in ("open", "deciding", "done"):
        producer = harness.init(name).producer
        harness.add(producer, 0, 3, name=name)
    opened = ProducerIdentity(1000, 0)
    harness.end(ProducerIdentity(1001, 0), name="deciding")
    done = harness.end(ProducerIdentity(1002, 0), commits=False, name="done").producer
    harness.mark()
    after = harness.failover()
    assert [one.transactional_id for one in after.markers] == ["deciding"]
    assert after.markers[0][1:] == (1001, 1, 1, True, 2, data(0, 3))
    after.mark()
    assert after.state("deciding") == "CompleteCommit"
    assert after.end(ProducerIdentity(1001, 0), name="deciding").producer == (1001, 1), "the response was lost"
    assert after.end(opened, name="open").error is NONE
    assert after.end(done, commits=False, name="done").producer == (1002, 2)


def test_unload_leaves_pending_responses_to_the_runtime() -> None:
    harness = TransactionHarness()
    harness.commits_at_once = False
    assert harness.execute(InitProducerId("t", 1_000)) is None
    harness.take(harness.coordinator.on_unloaded(harness.now_ms))
    assert list(harness.responses.values()) == [InitProducerIdResponse(ErrorCode.not_coordinator)]
    harness.commit()


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_invalid_timeouts_are_rejected(timeout_ms: int) -> None:
    assert TransactionHarness().init(timeout_ms=timeout_ms).error is ErrorCode.invalid_transaction_timeout


def test_empty_transactional_ids_are_rejected() -> None:
    harness = TransactionHarness()
    assert harness.init("").error is ErrorCode.invalid_request
    assert harness.add(ProducerIdentity(1, 1), 0, name="") is ErrorCode.invalid_request
    assert harness.end(ProducerIdentity(1, 1), name="").error is ErrorCode.invalid_request
    assert harness.end(ProducerIdentity(1, 1), name="never seen").error is UNMAPPED


# ---- two phases


TWO_PHASES = TransactionSettings(two_phase_commit=True)


def _keep(harness: TransactionHarness) -> InitProducerIdResponse:
    response = harness.execute(InitProducerId("t", 60_000, None, True, True))
    assert isinstance(response, InitProducerIdResponse)
    return response


def test_two_phase_commit_is_rejected_unless_enabled() -> None:
    harness = TransactionHarness()
    response = harness.execute(InitProducerId("t", 60_000, None, True))
    assert response == InitProducerIdResponse(ErrorCode.transactional_id_authorization_failed)
    assert harness.execute(InitProducerId("t", 60_000, None, False, True)) == InitProducerIdResponse(
        ErrorCode.unsupported_version
    )


@pytest.mark.parametrize("commits", [True, False])
def test_successor_ends_a_kept_transaction(commits: bool) -> None:
    harness = TransactionHarness(TWO_PHASES)
    response = _keep(harness)
    first = response.producer
    assert response == (NONE, (1000, 0), (-1, -1)), "there is nothing to keep"
    harness.add(first, 0)
    harness.pass_time(10_000_000_000)
    assert harness.state() == "Ongoing", "no timeout"
    assert _keep(harness) == (NONE, (1000, 1), (1000, 0))
    harness = harness.failover()
    response = _keep(harness)
    assert response == (NONE, (1000, 2), (1000, 0))
    assert harness.end(first).error is FENCED
    assert harness.add(first, 1) is FENCED
    assert harness.add(response.producer, 1) is NO_STATE
    ended = harness.end(response.producer, commits=commits)
    assert ended.producer == (1000, 3)
    assert harness.markers[-1][1:5] == (1000, 1, 1, commits)
    assert harness.end(response.producer, commits=commits).error is CONCURRENT
    harness = harness.failover()
    harness.mark()
    assert harness.end(response.producer, commits=commits) == ended
    assert harness.end(response.producer, commits=not commits).error is NO_STATE
    assert harness.add(ended.producer, 0) is NONE


def test_init_without_keep_aborts_a_kept_transaction_and_fences_its_successor() -> None:
    harness = TransactionHarness(TWO_PHASES)
    harness.add(_keep(harness).producer, 0)
    kept = [_keep(harness).producer for _ in range(3)][-1]
    assert kept == (1000, 3)
    assert harness.init().error is CONCURRENT
    assert harness.mark()[1:5] == (1000, 1, 0, False)
    assert harness.init().producer == (1000, 5)
    assert harness.end(kept).error is FENCED


# ---- views


def test_describe_and_list_transactions() -> None:
    harness = TransactionHarness()
    producer = harness.init().producer
    harness.init("idle")
    harness.add(producer, 4, 2)
    harness.pass_time(5_000)
    described = describe(harness.coordinator, "t")
    assert described == (
        "t",
        NONE,
        "Ongoing",
        60_000,
        1_000_000,
        (1000, 0),
        (TopicPartition("data", 2), TopicPartition("data", 4)),
    )
    assert describe(harness.coordinator, "x").error is ErrorCode.transactional_id_not_found
    assert describe(harness.coordinator, "").error is ErrorCode.invalid_request

    def names(**filters: object) -> list[str]:
        return [one.transactional_id for one in list_transactions(harness.coordinator, harness.now_ms, **filters)]  # type: ignore[arg-type]

    assert names() == ["t", "idle"]
    assert names(states=["Ongoing"]) == ["t"]
    assert names(states=["ongoing"]) == []
    assert names(producer_ids=[1001]) == ["idle"]
    assert names(duration_ms=4_999, states=["Ongoing"]) == ["t"]
    assert names(duration_ms=5_000, states=["Ongoing"]) == []
    assert names(matches=lambda name: name.startswith("i")) == ["idle"]
