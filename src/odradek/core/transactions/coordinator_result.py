"""The result of a transaction coordinator: like that of a group coordinator, plus markers to send.

A transactional id changes when its record is committed, not before: until then other requests for it get
CONCURRENT_TRANSACTIONS. So nothing is replayed after an append, and almost every response comes from `on_written`.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from odradek.core.transactions.commands import Markers, Response
from odradek.core.transactions.records import TransactionRecord
from odradek.core.transactions.transaction_metadata import TransactionMetadata

Token = int
"""By which the runtime knows the request that a response belongs to."""


class MetadataWritten(NamedTuple):
    transactional_id: str
    metadata: TransactionMetadata
    token: Token | None = None
    response: Response | None = None
    """The response if the record is committed."""


class TombstonesWritten(NamedTuple):
    transactional_ids: tuple[str, ...]


WriteEvent = MetadataWritten | TombstonesWritten


@dataclass(slots=True)
class CoordinatorResult:
    records: list[TransactionRecord] = field(default_factory=list)
    responses: list[tuple[Token, Response]] = field(default_factory=list)
    responses_after_commit: list[tuple[Token, Response]] = field(default_factory=list)
    write_event: WriteEvent | None = None
    replays: bool = False
    is_atomic: bool = True
    producer: None = None
    markers: list[Markers] = field(default_factory=list)
