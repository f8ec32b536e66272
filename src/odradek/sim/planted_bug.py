"""A bug that can be switched on by name: it replaces one piece of the node, or a few, while a run lasts."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from odradek.sim.scenarios import Scenario

Breaks = Callable[[Any], Any]
"""Makes the broken piece from the sound one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlantedBug:
    name: str
    what: str
    scenario: Scenario
    """In which it is to be found."""
    owner: Any
    attribute: str
    breaks: Breaks
    also: tuple[tuple[Any, str, Breaks], ...] = ()
    """What else has to go: as a rule a check that would stop the node before anything false can be seen."""


def plant(
    name: str,
    what: str,
    owner: Any,
    attribute: str,
    breaks: Breaks,
    *also: tuple[Any, str, Breaks],
    scenario: Scenario,
) -> PlantedBug:
    return PlantedBug(
        name=name, what=what, scenario=scenario, owner=owner, attribute=attribute, breaks=breaks, also=also
    )


def always(value: object) -> Breaks:
    """Returns the same result for every call."""
    return lambda sound: lambda *arguments, **options: value


@contextmanager
def install_bug(bug: PlantedBug | None) -> Iterator[None]:
    with ExitStack() as stack:
        if bug is not None:
            for owner, attribute, breaks in ((bug.owner, bug.attribute, bug.breaks), *bug.also):
                # As it stands in the class: a property stays one.
                sound = vars(owner)[attribute]
                stack.callback(setattr, owner, attribute, sound)
                setattr(owner, attribute, breaks(sound))
        yield
