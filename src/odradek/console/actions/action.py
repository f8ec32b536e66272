"""The interface of every change: preview it, then carry it out."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from odradek.client.cluster import Cluster
from odradek.console.readings.table import Column, Row


class Refused(Exception):
    """The console refuses the change; the message says why and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    sentence: str
    """The effect of an action, shown before the user confirms it."""
    columns: Sequence[Column] = ()
    rows: Sequence[Row] = ()
    warnings: Sequence[str] = ()
    typed: str | None = None
    """Text that the user must type to confirm an action that cannot be undone."""
    is_empty: bool = False
    """The action would change nothing."""


class Action(Protocol):
    @property
    def name(self) -> str:
        """The label of the button, such as `Delete topic`."""
        ...

    @property
    def target(self) -> str:
        """The resource that the action changes, for the audit log."""
        ...

    def preview(self, cluster: Cluster) -> Preview:
        """Queries the cluster and changes nothing. Raises Refused, KafkaError or ClientError."""
        ...

    def carry_out(self, cluster: Cluster) -> str:
        """Returns the result as a sentence. Raises Refused, KafkaError or ClientError."""
        ...

    def details(self) -> dict[str, object]:
        """Further JSON values for the audit log, without secrets."""
        ...
