"""The states of a sink in the decision log, and their JSON form."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, NamedTuple

NO_BATCH = -1


class Producer(NamedTuple):
    producer_id: int
    epoch: int
    written: int = 0
    """Records written in this epoch. If EndTxn does not raise epochs, the next record continues the sequence."""


class Prepared(NamedTuple):
    """A transaction, open or to be opened. Only one task has this combination of ID, producer and epoch."""

    transactional_id: str
    producer: Producer


Transactions = tuple[Prepared, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """A driver is ready for the batch after `after`. The task with ticket t writes as `pool[t]`."""

    number: int
    query: str | None
    after: int
    pool: Transactions


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """The batch consists of exactly these transactions. `pool` is the pool of its attempts."""

    number: int
    query: str | None
    batch: int
    winners: Transactions
    pool: Transactions


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The batch is visible, and all other transactions are aborted. `pool` has the IDs for reuse."""

    number: int
    query: str | None
    batch: int
    pool: Transactions


State = Begun | Decided | Finished

_STATES: dict[str, type[State]] = {"begun": Begun, "decided": Decided, "finished": Finished}
_LISTS = ("pool", "winners")


def last_finished_batch(state: State | None) -> int:
    """Return the last batch that is visible."""
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
    """Raises ValueError for an invalid state or one of a later release."""
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
            values[name] = tuple(map(_parse_prepared, values[name]))
    return kind(**values)


def _parse_prepared(form: Any) -> Prepared:
    return Prepared(form[0], Producer(*form[1]))
