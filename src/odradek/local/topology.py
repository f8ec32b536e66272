"""Which nodes a cluster of `odradek up` has, and what each of them is. Knows no files and no ports."""

from collections.abc import Mapping
from dataclasses import dataclass

from odradek.text.errors import UserError

BROKER, CONTROLLER = "broker", "controller"

# Fewer than three brokers would not outlive the loss of one voter, so one votes alone; more than three voters only
# make every change of the metadata wait for more disks.
_COMBINED_VOTERS = 3


@dataclass(frozen=True, slots=True)
class Topology:
    roles: Mapping[int, frozenset[str]]
    """Of each node, in the order of their ids."""

    @classmethod
    def new(cls, brokers: int, controllers: int | None) -> "Topology":
        """Combined nodes, of which the first vote, or controllers of their own with the lowest ids."""
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

    def grown(self, brokers: int | None, controllers: int | None) -> "Topology":
        """With more brokers, which is all that can change later. Raises UserError. None: as it is."""
        self._check_controllers(controllers)
        there = len(self.brokers)
        wanted = there if brokers is None else brokers
        if wanted < there:
            raise UserError(
                f"the cluster has {_counted(there, 'broker')}, and --brokers {wanted} would leave out one that holds "
                "data: leave the option away, or choose another --data-dir, or --fresh to delete everything"
            )
        first = max(self.roles) + 1
        added = {number: frozenset({BROKER}) for number in range(first, first + wanted - there)}
        return Topology({**self.roles, **added})

    def _check_controllers(self, wanted: int | None) -> None:
        if wanted is None or (self.is_separated and wanted == len(self.controllers)):
            return
        are = "of their own" if self.is_separated else "that are brokers too"
        raise UserError(
            f"the cluster has {_counted(len(self.controllers), 'controller')} {are}, not {wanted} of their own: leave "
            "--controllers away (`odradek quorum add` gives a controller a vote), or choose another --data-dir"
        )


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
