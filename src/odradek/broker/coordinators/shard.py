"""What the runtime knows of a coordinator: a state machine for one partition of an internal topic.

A shard turns a command into a result; the runtime appends the result's records, replays them, and completes its
responses. `CoordinatorKind` is what the partitions of one internal topic have in common.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from odradek.base.errors import ErrorCode

Token = int
"""By which the runtime knows the request that a response belongs to."""

A = TypeVar("A")
C = TypeVar("C")
R = TypeVar("R")
A_co = TypeVar("A_co", covariant=True)
C_contra = TypeVar("C_contra", contravariant=True)
R_co = TypeVar("R_co", covariant=True)


class UnservedRecord(Exception):
    """The log holds a record that this release does not support: a broker that finds it must not serve the shard."""


class Producer(Protocol):
    """The transaction that the records of a result belong to."""

    @property
    def id(self) -> int: ...

    @property
    def epoch(self) -> int: ...


class Result(Protocol[A_co, R_co]):
    """What the runtime has to do after a command, a deadline or an event, in this order."""

    @property
    def records(self) -> Sequence[R_co]:
        """To append, in one batch if the result is atomic, and to replay."""

    @property
    def replays(self) -> bool: ...

    @property
    def is_atomic(self) -> bool: ...

    @property
    def producer(self) -> Producer | None: ...

    @property
    def responses(self) -> Sequence[tuple[Token, A_co]]:
        """To complete at once, even if the append fails."""

    @property
    def responses_after_commit(self) -> Sequence[tuple[Token, A_co]]:
        """To complete when the records are committed, or, without records, when all earlier records are."""

    @property
    def write_event(self) -> Any | None:
        """To pass to `on_written` when the records are committed, or cannot be."""


class CoordinatorShard(Protocol[C_contra, A_co, R]):
    """Times are in milliseconds, of a clock that does not jump and stays close to the wall clock."""

    def handle(self, command: C_contra, token: Token, now_ms: int) -> Result[A_co, R]: ...

    def replay(self, record: R, offset: int, now_ms: int, producer_id: int) -> None:
        """While the log is loaded, and after each append. `producer_id` is -1 outside of transactions."""

    def replay_marker(self, producer_id: int, *, commits: bool, offset: int) -> None:
        """A transaction has ended in this partition."""

    def advance_high_watermark(self, high_watermark: int) -> None:
        """Everything below is committed. Called before every operation."""

    def on_written(self, event: Any, error: ErrorCode, now_ms: int) -> Result[A_co, R]: ...

    def next_deadline_ms(self) -> int | None: ...

    def expire_deadline(self, now_ms: int) -> Result[A_co, R] | None:
        """Handles one expired deadline. Called until it returns None."""

    def on_loaded(self, now_ms: int) -> Sequence[Result[A_co, R]]:
        """The log has been replayed; commands follow."""

    def on_unloaded(self, now_ms: int) -> Result[A_co, R]:
        """This broker no longer leads. Only the responses of the result count."""


class CoordinatorKind(Protocol[C_contra, A_co, R]):
    @property
    def topic(self) -> str: ...

    @property
    def settings(self) -> "RuntimeSettings": ...

    def new_shard(self, partition: int, leader_epoch: int) -> CoordinatorShard[C_contra, A_co, R]: ...

    def error_response(self, command: C_contra, error: ErrorCode) -> A_co:
        """The response to a command that no shard executes, or whose records cannot be written."""

    def is_independent(self, command: C_contra) -> bool:
        """Whether its result is the same whatever other independent commands wrote just before it: such commands may
        share a batch."""

    def encode(self, record: R) -> tuple[bytes, bytes | None]:
        """Raises UnwritableRecord."""

    def decode(self, key: bytes | None, value: bytes | None) -> R | None:
        """None for a record to skip. Raises UnreadableRecord, or UnservedRecord. Called from any thread."""


class RuntimeSettings(NamedTuple):
    write_timeout_ms: int
    """How long a response waits for the replicas."""
    compression: int = 0
    """Codec of the appended batches."""
