"""Topics: what was acknowledged stays, what was seen stays, and what was never answered happened once or not at all.

A topic has one author, who asks for one thing after the other. An answer that never came leaves open whether the change
was made, and when: a request may lie in a queue while its author has long moved on. So the checker follows every state
that the topic may be in, and objects when an answer fits none of them.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from odradek.sim.checkers.violation import Violation
from odradek.sim.history import Change, ChangeKind, History, Outcome, View

METADATA: Final = "metadata that was acknowledged stays"
# More changes of unknown outcome than this make everything possible.
_OPEN_MAX: Final = 10


class _Topic(NamedTuple):
    partitions: int
    value: str


class _State(NamedTuple):
    topic: _Topic | None
    # Changes of unknown outcome that have not been made so far, by number.
    open: frozenset[int]


def check_metadata(history: History) -> Iterator[Violation]:
    steps_of: dict[str, list[Change | View]] = defaultdict(list)
    for step in history.changes:
        steps_of[step.topic].append(step)
    for topic, steps in sorted(steps_of.items()):
        yield from _check_topic(topic, steps)


def _check_topic(topic: str, steps: list[Change | View]) -> Iterator[Violation]:
    open_changes: dict[int, Change] = {}
    states = {_State(None, frozenset())}
    for number, step in enumerate(steps):
        if isinstance(step, Change) and step.outcome is Outcome.UNKNOWN:
            open_changes[number] = step
            states = {state._replace(open=state.open | {number}) for state in states}
            if len(open_changes) > _OPEN_MAX:
                return
            continue
        reachable = _with_open_changes(states, open_changes)
        states = {after for state in reachable if (after := _after(state, step)) is not None}
        if not states:
            possible = sorted({_text(state.topic) for state in reachable})
            assert step.ended is not None
            yield Violation(METADATA, f"{_answer(step)}, where {topic} can only be {' or '.join(possible)}", step.ended)
            return


def _with_open_changes(states: set[_State], open_changes: dict[int, Change]) -> set[_State]:
    """Those states, and those after any of the open changes was made."""
    found = set(states)
    waiting = list(states)
    while waiting:
        state = waiting.pop()
        for number in state.open:
            after = _State(_apply(state.topic, open_changes[number])[0], state.open - {number})
            if after not in found:
                found.add(after)
                waiting.append(after)
    return found


def _after(state: _State, step: Change | View) -> _State | None:
    """The state in which an answer leaves the topic; None if it cannot be the answer in this state."""
    if isinstance(step, View):
        return state if _shows(step, state.topic) else None
    topic, is_done = _apply(state.topic, step)
    if is_done != (step.outcome is Outcome.DONE):
        return None
    return state._replace(topic=topic)


def _shows(view: View, topic: _Topic | None) -> bool:
    if topic is None or not view.exists:
        return topic is None and not view.exists
    return view.partitions in (None, topic.partitions) and view.value in (None, topic.value)


def _apply(topic: _Topic | None, change: Change) -> tuple[_Topic | None, bool]:
    """What becomes of the topic, and whether the change is made or refused."""
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


def _answer(step: Change | View) -> str:
    if isinstance(step, Change):
        return f"{step} was {step.outcome.value} {step.reason}"
    if not step.exists:
        return f"{step.topic} was not there"
    return (
        f"{step.topic} was seen with {step.partitions} partitions"
        if step.partitions
        else f"{step.topic} had {step.value}"
    )


def _text(topic: _Topic | None) -> str:
    return "absent" if topic is None else f"{topic.partitions} partitions with {topic.value}"
