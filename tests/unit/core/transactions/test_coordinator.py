"""The life of a transactional id, told to its coordinator command by command."""

import pytest

from odradek.base.errors import ErrorCode
from odradek.base.ids import TopicPartition
from odradek.core.transactions.commands import (
    AddPartitions,
    EndTransaction,
    InitAnswer,
    InitProducerId,
    ProducerIdentity,
    VerifyAnswer,
    VerifyPartitions,
)
from odradek.core.transactions.settings import TransactionSettings
from odradek.core.transactions.views import describe, list_transactions
from tests.unit.core.transactions.transaction_host import TransactionHost

NONE = ErrorCode.none
FENCED = ErrorCode.producer_fenced
CONCURRENT = ErrorCode.concurrent_transactions
NO_STATE = ErrorCode.invalid_txn_state
UNMAPPED = ErrorCode.invalid_producer_id_mapping


def data(*indexes: int) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition("data", index) for index in indexes)


def test_a_transaction_with_rising_epochs() -> None:
    host = TransactionHost()
    producer = host.init().producer
    assert producer == (1000, 0)
    assert host.add(producer, 0, 1) is NONE
    assert host.state() == "Ongoing"
    answer = host.end(producer)
    assert answer.producer == (1000, 1)
    assert host.state() == "PrepareCommit"
    markers = host.markers[-1]
    assert markers[1:] == (1000, 1, 0, True, 2, data(0, 1))
    # The next transaction waits until the partitions know of this one's end.
    assert host.add(answer.producer, 0) is CONCURRENT
    host.take(host.coordinator.marked(markers, data(0), host.now_ms))
    assert host.state() == "PrepareCommit"
    host.take(host.coordinator.marked(markers, data(1), host.now_ms))
    assert host.state() == "CompleteCommit"
    assert host.add(answer.producer, 0) is NONE


def test_a_transaction_of_an_old_client() -> None:
    host = TransactionHost()
    producer = host.init().producer
    assert host.add(producer, 0, version=0) is NONE
    answer = host.end(producer, commits=False, version=0)
    assert answer == (NONE, (-1, -1))
    assert host.mark()[1:6] == (1000, 0, 0, False, 0)
    assert host.state() == "CompleteAbort"
    assert host.end(producer, commits=False, version=0).error is NONE
    assert host.end(producer, commits=True, version=0).error is NO_STATE
    assert host.add(producer, 0, version=0) is NONE


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
def test_ends_of_what_is_not_open(state: str, commits: bool, epoch: int, expected: ErrorCode) -> None:
    """Kafka's table for transactions whose epochs rise: a repetition has the epoch before."""
    host = TransactionHost()
    producer = host.init().producer
    if state == "Empty":
        producer = host.init().producer
    else:
        host.add(producer, 0)
        producer = host.end(producer, commits=state != "CompleteAbort").producer
        if state != "PrepareCommit":
            host.mark()
    assert host.state() == state
    asked = ProducerIdentity(producer.producer_id, producer.producer_epoch + epoch)
    answer = host.end(asked, commits=commits)
    assert answer.error is expected
    if expected is NONE:
        assert answer.producer == (1000, producer.producer_epoch + (1 if epoch == 0 else 0))


def test_a_second_producer_fences_the_first_and_aborts_its_transaction() -> None:
    host = TransactionHost()
    first = host.init().producer
    host.add(first, 0)
    assert host.init().error is CONCURRENT
    assert host.state() == "PrepareAbort"
    assert host.markers[-1].producer_epoch == 1
    assert host.init().error is CONCURRENT
    host.mark()
    second = host.init().producer
    assert second == (1000, 2)
    assert host.add(first, 0) is FENCED
    assert host.end(first).error is FENCED
    assert host.add(second, 0) is NONE


def test_a_producer_raises_its_own_epoch_and_may_ask_again() -> None:
    host = TransactionHost()
    first = host.init().producer
    raised = host.init(expected=first).producer
    assert raised == (1000, 1)
    assert host.init(expected=first).producer == raised, "the answer was lost"
    assert host.init(expected=raised).producer == (1000, 2)
    assert host.init(expected=first).error is FENCED
    assert host.init(expected=ProducerIdentity(4, 0)).error is FENCED
    other = host.init().producer
    assert host.init(expected=raised).error is FENCED, "another producer came since"
    assert host.init(expected=other).error is NONE


def test_who_comes_from_an_id_that_is_forgotten_gets_a_new_one() -> None:
    assert TransactionHost().init(expected=ProducerIdentity(77, 3)).producer == (1000, 0)


def _at_epoch(epoch: int) -> tuple[TransactionHost, ProducerIdentity]:
    host = TransactionHost()
    host.init()
    transaction = host.coordinator.get("t")
    assert transaction is not None
    transaction.standing = transaction.standing._replace(producer_epoch=epoch)
    return host, transaction.standing.producer


def test_an_exhausted_epoch_leads_to_a_new_id_at_init() -> None:
    host, producer = _at_epoch(32_766)
    assert host.init(expected=producer).producer == (1001, 0)
    assert host.init(expected=producer).producer == (1001, 0), "the answer was lost"


def test_an_exhausted_epoch_leads_to_a_new_id_at_an_end() -> None:
    host, producer = _at_epoch(32_766)
    host.add(producer, 0)
    answer = host.end(producer)
    assert answer.producer == (1001, 0)
    assert host.markers[-1][1:3] == (1000, 32_767)
    assert host.end(producer).error is UNMAPPED or host.end(producer).error is CONCURRENT
    host.mark()
    assert host.end(producer) == answer, "the answer was lost"
    assert host.add(answer.producer, 0) is NONE


def test_without_an_id_at_hand_nothing_changes() -> None:
    host, producer = _at_epoch(32_766)
    host.add(producer, 0)
    host.ids_at_hand = False
    assert host.end(producer).error is ErrorCode.coordinator_load_in_progress
    assert host.state() == "Ongoing"
    assert host.init("other").error is ErrorCode.coordinator_load_in_progress
    assert host.coordinator.get("other") is None
    host.ids_at_hand = True
    assert host.end(producer).error is NONE


def test_partitions_are_verified() -> None:
    host = TransactionHost()
    producer = host.init().producer
    host.add(producer, 0)

    def verify(asked: ProducerIdentity, name: str = "t") -> VerifyAnswer:
        answer = host.ask(VerifyPartitions(name, *asked, data(0, 5)))
        assert isinstance(answer, VerifyAnswer)
        return answer

    answer = verify(producer)
    assert answer.of(TopicPartition("data", 0)) is NONE
    assert answer.of(TopicPartition("data", 5)) is ErrorCode.transaction_abortable
    assert verify(ProducerIdentity(1000, 4)).error is FENCED
    assert verify(ProducerIdentity(4, 0)).error is UNMAPPED
    assert verify(producer, "other").error is UNMAPPED
    assert verify(producer, "").error is ErrorCode.invalid_request
    ended = host.end(producer).producer
    assert verify(ended).error is CONCURRENT
    host.mark()
    assert verify(ended).of(TopicPartition("data", 0)) is ErrorCode.transaction_abortable


def test_while_a_record_is_not_committed_everybody_waits() -> None:
    host = TransactionHost()
    producer = host.init().producer
    host.commits_at_once = False
    assert host.ask(AddPartitions("t", *producer, data(0), 2)) is None
    assert host.add(producer, 1) is CONCURRENT
    assert host.init().error is CONCURRENT
    assert host.end(producer).error is CONCURRENT
    assert host.end(ProducerIdentity(1000, 9), version=0).error is FENCED
    assert host.state() == "Empty"
    host.commit()
    assert host.state() == "Ongoing"
    assert host.ask(EndTransaction("t", *producer, True, 2)) is None
    assert not host.markers
    host.commit()
    assert host.markers


def test_a_record_that_cannot_be_written_changes_nothing() -> None:
    host = TransactionHost()
    producer = host.init().producer
    host.failing = ErrorCode.not_enough_replicas
    assert host.add(producer, 0) is ErrorCode.coordinator_not_available
    assert host.state() == "Empty"
    host.failing = ErrorCode.not_leader_or_follower
    assert host.init().error is ErrorCode.not_coordinator
    host.failing = None
    assert host.init().producer == (1000, 1)


def test_an_end_that_partitions_know_of_is_written_until_it_is() -> None:
    host = TransactionHost()
    producer = host.init().producer
    host.add(producer, 0)
    host.end(producer)
    host.failing = ErrorCode.not_enough_replicas
    host.mark()
    host.pass_time(1_000)
    assert host.state() == "PrepareCommit"
    host.failing = None
    host.pass_time(1_000)
    assert host.state() == "CompleteCommit"


def test_late_and_strange_marks_change_nothing() -> None:
    host = TransactionHost()
    producer = host.init().producer
    host.add(producer, 0)
    producer = host.end(producer).producer
    first = host.mark()
    host.add(producer, 1)
    host.end(producer)
    host.mark(first)
    assert host.state() == "PrepareCommit"
    host.mark(host.markers[-1]._replace(transactional_id="other"))
    host.mark()
    assert host.state() == "CompleteCommit"


@pytest.mark.parametrize("version", [0, 2])
def test_a_transaction_that_takes_too_long_is_aborted(version: int) -> None:
    host = TransactionHost(version=version)
    producer = host.init(timeout_ms=15_000).producer
    host.add(producer, 0, version=version)
    host.pass_time(14_000)
    assert host.state() == "Ongoing"
    host.pass_time(20_000)
    assert host.state() == "PrepareAbort"
    assert host.mark()[1:6] == (1000, 1, 0, False, version)
    assert host.state() == "CompleteAbort"
    assert host.end(producer, version=version).error is (NO_STATE if version == 2 else FENCED)
    assert host.add(producer, 0, version=version) is FENCED


def test_a_fence_that_could_not_be_written_is_not_raised_again() -> None:
    host = TransactionHost(version=0)
    producer = host.init().producer
    host.add(producer, 0, version=0)
    host.failing = ErrorCode.not_enough_replicas
    assert host.init().error is ErrorCode.coordinator_not_available
    assert host.end(producer, version=0).error is FENCED
    host.failing = None
    assert host.init().error is CONCURRENT
    assert host.mark().producer_epoch == 1


def test_ids_that_nobody_uses_are_forgotten() -> None:
    host = TransactionHost(TransactionSettings(id_expiration_ms=7_200_000))
    producer = host.init().producer
    host.init("open")
    host.add(ProducerIdentity(1001, 0), 0, name="open")
    host.pass_time(3_600_000)
    host.add(producer, 0)
    producer = host.end(producer).producer
    host.mark()
    host.pass_time(7_100_000)
    assert host.state()
    host.pass_time(3_600_000)
    assert not host.state()
    assert host.state("open") == "PrepareAbort"
    assert host.add(producer, 0) is UNMAPPED
    assert not host.failover().state()


def test_a_failover_completes_what_was_decided_and_keeps_what_was_open() -> None:
    host = TransactionHost()
    for name in ("open", "deciding", "done"):
        producer = host.init(name).producer
        host.add(producer, 0, 3, name=name)
    opened = ProducerIdentity(1000, 0)
    host.end(ProducerIdentity(1001, 0), name="deciding")
    done = host.end(ProducerIdentity(1002, 0), commits=False, name="done").producer
    host.mark()
    after = host.failover()
    assert [one.transactional_id for one in after.markers] == ["deciding"]
    assert after.markers[0][1:] == (1001, 1, 1, True, 2, data(0, 3))
    after.mark()
    assert after.state("deciding") == "CompleteCommit"
    assert after.end(ProducerIdentity(1001, 0), name="deciding").producer == (1001, 1), "the answer was lost"
    assert after.end(opened, name="open").error is NONE
    assert after.end(done, commits=False, name="done").producer == (1002, 2)


def test_who_waits_at_unload_is_told() -> None:
    host = TransactionHost()
    host.commits_at_once = False
    assert host.ask(InitProducerId("t", 1_000)) is None
    host.take(host.coordinator.unload(host.now_ms))
    assert list(host.answers.values()) == [InitAnswer(ErrorCode.not_coordinator)]
    host.commit()


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_impossible_timeouts(timeout_ms: int) -> None:
    assert TransactionHost().init(timeout_ms=timeout_ms).error is ErrorCode.invalid_transaction_timeout


def test_impossible_names() -> None:
    host = TransactionHost()
    assert host.init("").error is ErrorCode.invalid_request
    assert host.add(ProducerIdentity(1, 1), 0, name="") is ErrorCode.invalid_request
    assert host.end(ProducerIdentity(1, 1), name="").error is ErrorCode.invalid_request
    assert host.end(ProducerIdentity(1, 1), name="never seen").error is UNMAPPED


# ---- two phases


TWO_PHASES = TransactionSettings(two_phase_commit=True)


def _keep(host: TransactionHost) -> InitAnswer:
    answer = host.ask(InitProducerId("t", 60_000, None, True, True))
    assert isinstance(answer, InitAnswer)
    return answer


def test_two_phases_are_refused_unless_allowed() -> None:
    host = TransactionHost()
    answer = host.ask(InitProducerId("t", 60_000, None, True))
    assert answer == InitAnswer(ErrorCode.transactional_id_authorization_failed)
    assert host.ask(InitProducerId("t", 60_000, None, False, True)) == InitAnswer(ErrorCode.unsupported_version)


@pytest.mark.parametrize("commits", [True, False])
def test_a_prepared_transaction_is_ended_by_the_successor(commits: bool) -> None:
    host = TransactionHost(TWO_PHASES)
    answer = _keep(host)
    first = answer.producer
    assert answer == (NONE, (1000, 0), (-1, -1)), "there is nothing to keep"
    host.add(first, 0)
    host.pass_time(10_000_000_000)
    assert host.state() == "Ongoing", "no timeout"
    assert _keep(host) == (NONE, (1000, 1), (1000, 0))
    host = host.failover()
    answer = _keep(host)
    assert answer == (NONE, (1000, 2), (1000, 0))
    assert host.end(first).error is FENCED
    assert host.add(first, 1) is FENCED
    assert host.add(answer.producer, 1) is NO_STATE
    ended = host.end(answer.producer, commits=commits)
    assert ended.producer == (1000, 3)
    assert host.markers[-1][1:5] == (1000, 1, 1, commits)
    assert host.end(answer.producer, commits=commits).error is CONCURRENT
    host = host.failover()
    host.mark()
    assert host.end(answer.producer, commits=commits) == ended
    assert host.end(answer.producer, commits=not commits).error is NO_STATE
    assert host.add(ended.producer, 0) is NONE


def test_who_does_not_keep_a_prepared_transaction_aborts_it_and_fences_its_successor() -> None:
    host = TransactionHost(TWO_PHASES)
    host.add(_keep(host).producer, 0)
    kept = [_keep(host).producer for _ in range(3)][-1]
    assert kept == (1000, 3)
    assert host.init().error is CONCURRENT
    assert host.mark()[1:5] == (1000, 1, 0, False)
    assert host.init().producer == (1000, 5)
    assert host.end(kept).error is FENCED


# ---- views


def test_descriptions_and_lists() -> None:
    host = TransactionHost()
    producer = host.init().producer
    host.init("idle")
    host.add(producer, 4, 2)
    host.pass_time(5_000)
    described = describe(host.coordinator, "t")
    assert described == (
        "t",
        NONE,
        "Ongoing",
        60_000,
        1_000_000,
        (1000, 0),
        (TopicPartition("data", 2), TopicPartition("data", 4)),
    )
    assert describe(host.coordinator, "x").error is ErrorCode.transactional_id_not_found
    assert describe(host.coordinator, "").error is ErrorCode.invalid_request

    def names(**filters: object) -> list[str]:
        return [one.transactional_id for one in list_transactions(host.coordinator, host.now_ms, **filters)]  # type: ignore[arg-type]

    assert names() == ["t", "idle"]
    assert names(states=["Ongoing"]) == ["t"]
    assert names(states=["ongoing"]) == []
    assert names(producer_ids=[1001]) == ["idle"]
    assert names(duration_ms=4_999, states=["Ongoing"]) == ["t"]
    assert names(duration_ms=5_000, states=["Ongoing"]) == []
    assert names(matches=lambda name: name.startswith("i")) == ["idle"]
