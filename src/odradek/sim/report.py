"""Describes a failed run: the violations, the faults that it needs, and the timeline."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from odradek.sim.checkers.violation import Violation
from odradek.sim.run import Result
from odradek.sim.trace import Event

_LINES_MAX: Final = 60
_VIOLATIONS_MAX: Final = 5
# Partitions and topics, as clients name them.
_SUBJECT: Final = re.compile(r"\b(orders\d+-\d+|alpha|beta|gamma|delta)\b")


def replay_command(seed: int, scenario: str, faults: Sequence[int] | None, bug: str | None) -> str:
    command = f"python -m odradek.sim --seed {seed} --scenario {scenario} --trace"
    if faults is not None:
        command += f" --faults {','.join(map(str, faults)) or 'none'}"
    return f"{command} --plant {bug}" if bug else command


def describe(result: Result, kept: Sequence[int] | None = None) -> Iterator[str]:
    """`result` is of a run with the faults at the indexes `kept`, and has a trace."""
    for violation in result.violations[:_VIOLATIONS_MAX]:
        yield f"  {violation}"
    if len(result.violations) > _VIOLATIONS_MAX:
        yield f"  and {len(result.violations) - _VIOLATIONS_MAX} more"
    places = range(len(result.faults)) if kept is None else kept
    yield f"faults ({len(places)} of {len(result.faults)}):"
    for place in places:
        yield f"  {place:2d}  {result.faults[place]}"
    if result.events and result.violations:
        yield "timeline:"
        yield from timeline(result.events, result.violations[0])


def timeline(events: Sequence[Event], violation: Violation) -> Iterator[str]:
    """The faults, process events, requests and responses of the same partition or topic before the violation."""
    subjects = set(_SUBJECT.findall(violation.what))
    listener = [event for event in events if event.is_major and _concerns(event, subjects)]
    before = [event for event in listener if event.seconds <= violation.seconds]
    if len(before) > _LINES_MAX:
        yield f"  … {len(before) - _LINES_MAX} earlier events: --trace shows all of them"
    for event in before[-_LINES_MAX:]:
        yield f"  {event}".splitlines()[0]
    yield f"  {violation.seconds:12.6f}  VIOLATION                 {violation.rule}: {violation.what}".splitlines()[0]


def _concerns(event: Event, subjects: set[str]) -> bool:
    mentioned = _SUBJECT.findall(event.what)
    return not mentioned or not subjects or not subjects.isdisjoint(mentioned)
