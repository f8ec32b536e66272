"""What every change is: something that can say beforehand what it would do, and do it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from odradek.client.cluster import Cluster
from odradek.console.readings.table import Column, Row


class Refused(Exception):
    """The console itself does not do it; the message says why, and what to change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    sentence: str
    """What would happen."""
    columns: Sequence[Column] = ()
    rows: Sequence[Row] = ()
    warnings: Sequence[str] = ()
    typed: str | None = None
    """What has to be typed before it happens: for what cannot be undone."""
    is_empty: bool = False
    """There is nothing to do."""


class Action(Protocol):
    @property
    def name(self) -> str:
        """As on the button: `Delete topic`."""
        ...

    @property
    def target(self) -> str:
        """What it is done to, for the audit log."""
        ...

    def preview(self, cluster: Cluster) -> Preview:
        """Asks whatever it has to; changes nothing. Raises Refused, KafkaError or ClientError."""
        ...

    def carry_out(self, cluster: Cluster) -> str:
        """Returns what has happened, in a sentence. Raises Refused, KafkaError or ClientError."""
        ...

    def details(self) -> dict[str, object]:
        """What the audit log keeps of it besides: values that JSON can hold, nothing secret."""
        ...
