"""The nodes of a local cluster and their roles. Does not know about files and ports."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from odradek.text.errors import UserError

BROKER, CONTROLLER = "broker", "controller"

# Two voters tolerate no failure, so fewer than three brokers have one voter. More than three voters only make every
# metadata write wait for more disks.
_COMBINED_VOTERS = 3


class BrokerCount(NamedTuple):
    number: int
    is_minimum: bool = False
    """Whether a cluster with more brokers keeps them."""


@dataclass(frozen=True, slots=True)
class Topology:
    roles: Mapping[int, frozenset[str]]
    """The roles of each node, in the order of their ids."""

    @classmethod
    def new(cls, brokers: int, controllers: int | None) -> "Topology":
        """Create combined nodes, the first of which are voters, or dedicated controllers with the lowest ids."""
        if controllers is not None:
            numbers = range(1, controllers + brokers + 1)
            return cls({number: frozenset({CONTROLLER if number <= controllers else BROKER}) for number in numbers})
        voters = _COMBINED_VOTERS if brokers >= _COMBINED_VOTERS else 1
        return cls(
            {
                number: frozenset({BROKER, CONTROLLER} if number <= voters else {BROKER})
                for number in range(1, brokers + 1)
            }
        )

    @property
    def brokers(self) -> tuple[int, ...]:
        return tuple(number for number, roles in self.roles.items() if BROKER in roles)

    @property
    def controllers(self) -> tuple[int, ...]:
        return tuple(number for number, roles in self.roles.items() if CONTROLLER in roles)

    @property
    def is_separated(self) -> bool:
        return not set(self.brokers) & set(self.controllers)

    def grow(self, brokers: BrokerCount | None, controllers: int | None) -> "Topology":
        """Add brokers; nothing else can change later. None keeps the number. Raises UserError."""
        self._check_controllers(controllers)
        current = len(self.brokers)
        target = current if brokers is None else brokers.number
        if brokers is not None and brokers.is_minimum:
            target = max(target, current)
        if target < current:
            raise UserError(
                f"The cluster has {_format_count(current, 'broker')}; "
                f"--brokers {target} would remove brokers with data. "
                "Remove the option, choose another --data-dir, or use --fresh to delete the cluster."
            )
        first = max(self.roles) + 1
        added = {number: frozenset({BROKER}) for number in range(first, first + target - current)}
        return Topology({**self.roles, **added})

    def _check_controllers(self, count: int | None) -> None:
        if count is None or (self.is_separated and count == len(self.controllers)):
            return
        kind = "dedicated" if self.is_separated else "combined"
        raise UserError(
            f"The cluster has {_format_count(len(self.controllers), f'{kind} controller')}, not {count} dedicated. "
            "Remove --controllers (`odradek quorum add` adds a voter), or choose another --data-dir."
        )


def _format_count(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
