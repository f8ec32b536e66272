"""What a coordinator is to its host: a machine that keeps the state of one partition of an internal topic.

It decides, and its host does: a step's records are appended, replayed, and its answers sent when the step says so.
`CoordinatorKind` is what all partitions of one internal topic have in common. The host knows nothing else of either.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from odradek.base.errors import ErrorCode

Token = int
"""By which the host knows whom an answer is for."""

A = TypeVar("A")
C = TypeVar("C")
R = TypeVar("R")
A_co = TypeVar("A_co", covariant=True)
C_contra = TypeVar("C_contra", contravariant=True)
R_co = TypeVar("R_co", covariant=True)


class UnservedRecord(Exception):
    """The log holds something that this release cannot go on from: whoever would lead with it must not."""


class Producer(Protocol):
    """The transaction that a step's records belong to."""

    @property
    def id(self) -> int: ...

    @property
    def epoch(self) -> int: ...


class Step(Protocol[A_co, R_co]):
    """What a command, a deadline or an event leaves the host to do, in this order."""

    @property
    def records(self) -> Sequence[R_co]:
        """To be appended, in one batch if the step is atomic, and replayed."""

    @property
    def replays(self) -> bool: ...

    @property
    def is_atomic(self) -> bool: ...

    @property
    def producer(self) -> Producer | None: ...

    @property
    def answers(self) -> Sequence[tuple[Token, A_co]]:
        """To be sent at once, whatever became of the records."""

    @property
    def answers_when_committed(self) -> Sequence[tuple[Token, A_co]]:
        """To be sent when the records are committed, or, without records, all that were appended before."""

    @property
    def on_written(self) -> Any | None:
        """To be given back by `written` when the records are committed, or cannot be."""


class Machine(Protocol[C_contra, A_co, R]):
    """Times are in milliseconds, of a clock that does not jump and is never far from the wall's."""

    def handle(self, command: C_contra, token: Token, now_ms: int) -> Step[A_co, R]: ...

    def replay(self, record: R, offset: int, now_ms: int, producer_id: int) -> None:
        """At load, and of what its own steps appended. `producer_id` is -1 outside of transactions."""

    def replay_marker(self, producer_id: int, *, commits: bool, offset: int) -> None:
        """A transaction has ended in this partition."""

    def advance(self, high_watermark: int) -> None:
        """Everything below is committed. Told before every step."""

    def written(self, written: Any, error: ErrorCode, now_ms: int) -> Step[A_co, R]: ...

    def next_deadline_ms(self) -> int | None: ...

    def pass_deadline(self, now_ms: int) -> Step[A_co, R] | None:
        """One that has come, or None. Asked until there is none."""

    def loaded(self, now_ms: int) -> Sequence[Step[A_co, R]]:
        """The log has been replayed: from now on there are commands."""

    def unload(self, now_ms: int) -> Step[A_co, R]:
        """This broker does not lead any more. Only the step's answers count."""


class CoordinatorKind(Protocol[C_contra, A_co, R]):
    @property
    def topic(self) -> str: ...

    @property
    def settings(self) -> "HostSettings": ...

    def new_machine(self, partition: int, leader_epoch: int) -> Machine[C_contra, A_co, R]: ...

    def refuse(self, command: C_contra, error: ErrorCode) -> A_co:
        """What a command is answered where no machine takes it, or its records could not be written."""

    def is_independent(self, command: C_contra) -> bool:
        """Whether it is decided the same whatever others of its kind have written just before it: then they may be
        written together."""

    def encode(self, record: R) -> tuple[bytes, bytes | None]:
        """Raises UnwritableRecord."""

    def decode(self, key: bytes | None, value: bytes | None) -> R | None:
        """None: passed over. Raises UnreadableRecord, or UnservedRecord. Called from any thread."""


class HostSettings(NamedTuple):
    write_timeout_ms: int
    """How long an answer waits for the replicas."""
    compression: int = 0
    """Codec of what is appended."""
