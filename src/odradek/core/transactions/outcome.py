"""What a step of the coordinator leaves its host to do: as a group coordinator's, and markers to be sent.

A transactional id changes when the record that says so is committed, not before: until then it is busy, and whoever
asks for anything else hears CONCURRENT_TRANSACTIONS. So nothing is replayed after an append, and almost every answer
comes from `written`.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from odradek.core.transactions.commands import Answer, Markers
from odradek.core.transactions.records import TransactionRecord
from odradek.core.transactions.standing import Standing

Token = int
"""By which the host knows whom an answer is for; the coordinator only keeps it."""


class StandingWritten(NamedTuple):
    transactional_id: str
    standing: Standing
    token: Token | None = None
    answer: Answer | None = None
    """What whoever asked hears if it is committed."""


class TombstonesWritten(NamedTuple):
    transactional_ids: tuple[str, ...]


Written = StandingWritten | TombstonesWritten


@dataclass(slots=True)
class Outcome:
    records: list[TransactionRecord] = field(default_factory=list)
    answers: list[tuple[Token, Answer]] = field(default_factory=list)
    answers_when_committed: list[tuple[Token, Answer]] = field(default_factory=list)
    on_written: Written | None = None
    replays: bool = False
    is_atomic: bool = True
    producer: None = None
    markers: list[Markers] = field(default_factory=list)
