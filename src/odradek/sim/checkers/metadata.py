"""Topics: acknowledged changes stay, visible changes stay, and a change without a response happens at most once.

Each topic is changed by one client. A change takes effect at one instant between request and response, and a
description shows the topic at such an instant. Without a response it is unknown whether and when the change took
effect: the request may wait in a queue long after the client gave up. So the checker follows every state that the topic
may be in, and reports a violation when a response fits none of them.

A broker that is not the controller may be behind: it shows the topic as it was at some instant, and never goes back in
time. It forwards a change again when the controller's response gets lost, as Kafka's brokers do: an error may be the
response to the second request although the first one succeeded, and a change whose client gave up may happen twice.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from odradek.sim.checkers.violation import Violation
from odradek.sim.history import Change, ChangeKind, History, Outcome, View

METADATA: Final = "acknowledged metadata changes stay"
# With more changes of unknown outcome than this, almost every state is possible, and the check stops.
_OPEN_MAX: Final = 10


class _Topic(NamedTuple):
    partitions: int
    value: str


class _State(NamedTuple):
    topic: _Topic | None
    # Steps that have begun and not taken effect, by number.
    open: frozenset[int]


def check_metadata(history: History) -> Iterator[Violation]:
    steps_of: dict[str, list[Change | View]] = defaultdict(list)
    for step in history.changes:
        steps_of[step.topic].append(step)
    for topic, steps in sorted(steps_of.items()):
        yield from _Check(steps).run(topic)


class _Check:
    """The check of one topic."""

    def __init__(self, steps: Sequence[Change | View]) -> None:
        self._steps: Final = steps
        self._states = {_State(None, frozenset())}
        # The possible past states of the topic, oldest first, and the newest that each broker has shown.
        self._past: Final[list[set[_Topic | None]]] = [{None}]
        self._shown_by: Final[dict[str, int]] = defaultdict(int)

    def run(self, topic: str) -> Iterator[Violation]:
        pending = 0
        for step, number, has_ended in _in_time(self._steps):
            if not has_ended:
                if not _may_be_behind(step):
                    self._states = {state._replace(open=state.open | {number}) for state in self._states}
                pending += step.ended is None
                if pending > _OPEN_MAX:
                    return
                continue
            reachable = self._reachable()
            if not self._fits(step, number, reachable):
                possible = sorted({_text(state.topic) for state in reachable})
                assert step.ended is not None
                what = f"{_outcome(step)}, where {topic} can only be {' or '.join(possible)}"
                yield Violation(METADATA, what, step.ended)
                return

    def _fits(self, step: Change | View, number: int, reachable: set[_State]) -> bool:
        if isinstance(step, View) and _may_be_behind(step):
            for place in range(self._shown_by[step.broker], len(self._past)):
                if any(_shows(step, topic) for topic in self._past[place]):
                    self._shown_by[step.broker] = place
                    return True
            return False
        self._states = {state for state in reachable if number not in state.open}
        return bool(self._states)

    def _reachable(self) -> set[_State]:
        """The states now, and those after any of the open steps took effect, which it adds to the past states."""
        found = set(self._states)
        waiting = list(self._states)
        became: set[_Topic | None] = set()
        while waiting:
            state = waiting.pop()
            for number in state.open:
                step = self._steps[number]
                is_possible, topic = _effect(state.topic, step)
                after = _State(topic, state.open if _may_happen_again(step) else state.open - {number})
                if is_possible and topic != state.topic:
                    became.add(topic)
                if is_possible and after not in found:
                    found.add(after)
                    waiting.append(after)
        if became:
            self._past.append(became)
        return found


def _in_time(steps: Sequence[Change | View]) -> Iterator[tuple[Change | View, int, bool]]:
    """Every step when it begins, and again, with True, when it ends; at the same time, ends come first."""
    events = [(step.began, 1, number) for number, step in enumerate(steps)]
    events += [(step.ended, 0, number) for number, step in enumerate(steps) if step.ended is not None]
    for _, is_begin, number in sorted(events):
        yield steps[number], number, not is_begin


def _may_be_behind(step: Change | View) -> bool:
    return isinstance(step, View) and not step.is_current


def _may_happen_again(step: Change | View) -> bool:
    return isinstance(step, Change) and step.may_be_repeated and step.outcome is Outcome.UNKNOWN


def _effect(topic: _Topic | None, step: Change | View) -> tuple[bool, _Topic | None]:
    """Whether the step, with its response, can have taken effect in this state; and the state after it."""
    if isinstance(step, View):
        return _shows(step, topic), topic
    after, is_done = _apply(topic, step)
    is_any_possible = step.outcome is Outcome.UNKNOWN or (step.may_be_repeated and step.outcome is Outcome.REFUSED)
    return is_any_possible or is_done == (step.outcome is Outcome.DONE), after


def _shows(view: View, topic: _Topic | None) -> bool:
    if topic is None or not view.exists:
        return topic is None and not view.exists
    return view.partitions in (None, topic.partitions) and view.value in (None, topic.value)


def _apply(topic: _Topic | None, change: Change) -> tuple[_Topic | None, bool]:
    """The topic after the change, and whether the change is possible."""
    return _EFFECTS[change.kind](topic, change)


def _create(topic: _Topic | None, change: Change) -> tuple[_Topic | None, bool]:
    return (_Topic(change.partitions, change.value), True) if topic is None else (topic, False)


def _delete(topic: _Topic | None, change: Change) -> tuple[_Topic | None, bool]:
    return None, topic is not None


def _grow(topic: _Topic | None, change: Change) -> tuple[_Topic | None, bool]:
    if topic is None or change.partitions <= topic.partitions:
        return topic, False
    return topic._replace(partitions=change.partitions), True


def _configure(topic: _Topic | None, change: Change) -> tuple[_Topic | None, bool]:
    return (None, False) if topic is None else (topic._replace(value=change.value), True)


_EFFECTS: Final[dict[ChangeKind, Callable[[_Topic | None, Change], tuple[_Topic | None, bool]]]] = {
    ChangeKind.CREATE: _create,
    ChangeKind.DELETE: _delete,
    ChangeKind.GROW: _grow,
    ChangeKind.CONFIGURE: _configure,
}


def _outcome(step: Change | View) -> str:
    return f"{step} was {step.outcome.value} {step.reason}" if isinstance(step, Change) else f"a client sees {step}"


def _text(topic: _Topic | None) -> str:
    return "absent" if topic is None else f"{topic.partitions} partitions with {topic.value}"
