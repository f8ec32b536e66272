from dataclasses import replace

from odradek.sim.checkers.metadata import check_metadata
from odradek.sim.history import Change, ChangeKind, History, Outcome, View

DONE, REFUSED, UNKNOWN = Outcome.DONE, Outcome.REFUSED, Outcome.UNKNOWN


def change(kind: str, outcome: Outcome, *, partitions: int = 1, value: str = "v", topic: str = "t") -> Change:
    ended = None if outcome is UNKNOWN else 2.0
    return Change(
        kind=ChangeKind(kind),
        topic=topic,
        partitions=partitions,
        value=value,
        began=1.0,
        ended=ended,
        outcome=outcome,
    )


def view(partitions: int | None = None, *, value: str | None = None) -> View:
    exists = partitions is not None or value is not None
    return View(topic="t", began=1.0, ended=2.0, exists=exists, partitions=partitions, value=value)


def breaks(*steps: Change | View) -> bool:
    """One after the other."""
    for number, step in enumerate(steps):
        step.began = number * 10.0
        step.ended = None if step.ended is None else number * 10.0 + 5.0
    return breaks_as_timed(*steps)


def breaks_as_timed(*steps: Change | View) -> bool:
    history = History()
    history.changes.extend(replace(step) for step in steps)
    return bool(list(check_metadata(history)))


def test_acknowledged_changes_must_be_visible() -> None:
    create = change("create", DONE, partitions=2)
    assert not breaks(create, view(2), view(value="v"))
    assert breaks(create, view(None))
    assert breaks(create, view(1))
    assert breaks(create, view(value="other"))
    assert not breaks(create, change("grow", DONE, partitions=3), view(3))
    assert breaks(create, change("grow", DONE, partitions=3), view(2))
    assert not breaks(create, change("configure", DONE, value="w"), view(value="w"))
    assert breaks(create, change("configure", DONE, value="w"), view(value="v"))
    assert not breaks(create, change("delete", DONE), view(None))
    assert breaks(create, change("delete", DONE), view(2))


def test_a_rejection_must_fit_the_state_of_the_topic() -> None:
    assert not breaks(change("delete", REFUSED), view(None))
    assert breaks(change("create", REFUSED))
    assert breaks(change("create", DONE), change("delete", REFUSED))
    assert breaks(change("create", DONE, partitions=2), change("grow", REFUSED, partitions=3))
    assert not breaks(change("create", DONE, partitions=2), change("grow", REFUSED, partitions=2))
    assert breaks(change("create", DONE), change("create", DONE))


def test_a_change_of_unknown_outcome_may_have_happened_or_not() -> None:
    create = change("create", UNKNOWN)
    assert not breaks(create, view(1))
    assert not breaks(create, view(None))
    assert not breaks(create, change("create", REFUSED))
    assert not breaks(create, change("create", DONE))


def test_a_change_of_unknown_outcome_may_happen_later_but_only_once() -> None:
    create = change("create", UNKNOWN)
    assert not breaks(create, view(None), view(1))
    assert breaks(create, view(1), view(None))
    assert breaks(create, view(1), change("delete", DONE), view(1))
    assert not breaks(create, replace(create), view(1), change("delete", DONE), view(1))


def test_topics_are_checked_independently() -> None:
    assert not breaks(change("create", DONE, topic="other"), view(None))


def test_a_change_seen_before_its_response_stays() -> None:
    create = replace(change("create", DONE), began=1.0, ended=9.0)
    absent, present = replace(view(None), began=2.0, ended=3.0), replace(view(1), began=4.0, ended=5.0)
    assert not breaks_as_timed(create, absent, present)
    assert breaks_as_timed(create, replace(present, began=2.0, ended=3.0), replace(absent, began=4.0, ended=5.0))
    # These overlap, so that either may be the earlier one.
    assert not breaks_as_timed(create, replace(present, began=2.0), absent)
    # Requested before the response, received after it.
    assert not breaks_as_timed(create, replace(absent, ended=10.0))
    assert breaks_as_timed(create, replace(absent, began=9.0, ended=10.0))


def test_a_change_seen_early_and_lost_is_a_violation() -> None:
    create = replace(change("create", UNKNOWN), began=1.0)
    seen, gone = replace(view(1), began=2.0, ended=3.0), replace(view(None), began=4.0, ended=5.0)
    assert not breaks_as_timed(create, seen)
    assert breaks_as_timed(create, seen, gone)


def behind(partitions: int | None, broker: str) -> View:
    return replace(view(partitions), broker=broker, is_current=False)


def test_a_broker_may_be_behind_but_never_goes_back() -> None:
    create, grow = change("create", DONE, partitions=1), change("grow", DONE, partitions=2)
    assert not breaks(create, grow, behind(None, "a"), behind(1, "a"), behind(2, "a"))
    assert breaks(create, grow, behind(2, "a"), behind(1, "a"))
    assert not breaks(create, grow, behind(2, "a"), behind(1, "b"))
    assert breaks(create, grow, behind(3, "a"))
    assert not breaks(change("create", UNKNOWN), behind(1, "a"))
    # It may have been created, seen and deleted.
    assert not breaks(change("create", UNKNOWN), behind(1, "a"), change("delete", UNKNOWN), behind(None, "a"))
    assert breaks(create, grow, behind(1, "a"), view(1))


def test_a_forwarded_change_may_be_sent_twice() -> None:
    create, grow = change("create", DONE, partitions=1), change("grow", REFUSED, partitions=2)
    assert breaks(create, grow)
    handed_on = replace(grow, may_be_repeated=True)
    assert not breaks(create, handed_on, view(2))
    # Had it not been made before, it would not have been refused.
    assert breaks(create, handed_on, view(1))
    lost = change("create", UNKNOWN)
    again = (view(1), change("delete", DONE), view(1))
    assert breaks(lost, *again)
    assert not breaks(replace(lost, may_be_repeated=True), *again)
    assert breaks(create, replace(change("grow", DONE, partitions=2), may_be_repeated=True), view(1))
