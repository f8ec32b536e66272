"""A bug that can be switched on by name: it replaces one piece of the node while a run lasts."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from odradek.sim.scenarios import Scenario


@dataclass(frozen=True, slots=True, kw_only=True)
class PlantedBug:
    name: str
    what: str
    scenario: Scenario
    """In which it is to be found."""
    owner: Any
    attribute: str
    breaks: Callable[[Any], Any]
    """Makes the broken piece from the sound one."""


@contextmanager
def planted(bug: PlantedBug | None) -> Iterator[None]:
    if bug is None:
        yield
        return
    # As it stands in the class: a property stays one.
    sound = vars(bug.owner)[bug.attribute]
    setattr(bug.owner, bug.attribute, bug.breaks(sound))
    try:
        yield
    finally:
        setattr(bug.owner, bug.attribute, sound)
