"""What the decision log holds of a sink, and its form as JSON."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, NamedTuple

NO_BATCH = -1


class Producer(NamedTuple):
    producer_id: int
    epoch: int
    written: int = 0
    """Records of a driver in this epoch: where ends do not raise it, the next one needs the next sequence number."""


class Prepared(NamedTuple):
    """A transaction, open or to be opened: who holds these three, and nobody else, writes to it."""

    transactional_id: str
    producer: Producer


Transactions = tuple[Prepared, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """A driver is ready for the batch behind `after`; whoever draws ticket t may write as `pool[t]`."""

    number: int
    query: str | None
    after: int
    pool: Transactions


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """The batch is these transactions, whatever happens. `pool` is what its attempts were given."""

    number: int
    query: str | None
    batch: int
    winners: Transactions
    pool: Transactions


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The batch is visible, and all else is aborted. `pool`: ids that are free, ready to write."""

    number: int
    query: str | None
    batch: int
    pool: Transactions


State = Begun | Decided | Finished

_STATES: dict[str, type[State]] = {"begun": Begun, "decided": Decided, "finished": Finished}
_LISTS = ("pool", "winners")


def last_finished(state: State | None) -> int:
    """The batch up to which everything is visible."""
    match state:
        case None:
            return NO_BATCH
        case Begun():
            return state.after
        case Decided():
            return state.batch - 1
        case Finished():
            return state.batch


def to_json(state: State) -> bytes:
    form: dict[str, Any] = {"state": type(state).__name__.lower(), **asdict(state)}
    return json.dumps(form, separators=(",", ":")).encode()


def from_json(data: bytes) -> State:
    """Raises ValueError for what is no state, or one of a later release."""
    try:
        form: Mapping[str, Any] = json.loads(data)
        kind = _STATES[form["state"]]
        values = {field.name: form[field.name] for field in fields(kind)}
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"The decision log contains {data[:200]!r}, which this release cannot read. Upgrade Odradek."
        ) from error
    for name in _LISTS:
        if name in values:
            values[name] = tuple(map(_prepared, values[name]))
    return kind(**values)


def _prepared(form: Any) -> Prepared:
    return Prepared(form[0], Producer(*form[1]))
