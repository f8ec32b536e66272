"""Compaction as the program of a worker: it gets a `CompactionRequest`, writes `.cleaned` segments and reports them."""

from collections.abc import Generator
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from typing import Final

from odradek.base.ports import Disk, Message
from odradek.records.walk import INTERPRETED_WALK, Walk, compiled_walk
from odradek.storage.log import names
from odradek.storage.log.compaction_pass import CleaningStats, CompactionPass, FinishedSegment
from odradek.storage.log.compaction_request import CompactionRequest

# Above this size loading the compiler pays off; below, it would need more memory than the log.
_WORTH_COMPILING_BYTES: Final = 4 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Since the last message, a segment was finished, or a turn's bytes were read and written. Or the pass is done."""

    io_bytes: int
    stats: CleaningStats
    finished: FinishedSegment | None = None
    # Of a pass that is done: below it the log is clean.
    end_offset: int | None = None

    def to_message(self) -> Message:
        return Message(asdict(self))

    @classmethod
    def from_message(cls, message: Message) -> "Progress":
        fields = dict(message.fields)
        finished = fields.pop("finished")
        return cls(
            stats=CleaningStats(**fields.pop("stats")),
            finished=None if finished is None else FinishedSegment(*finished),
            **fields,
        )


def run(disk: Disk, message: Message) -> Generator[Message, None, None]:
    request = CompactionRequest.from_message(message)
    # Of a worker that died.
    _remove_cleaned_files(disk, request.directory)
    cleaning = CompactionPass(disk, request, _walk_for(request.input_bytes))
    try:
        yield from _take_turns(cleaning, request.turn_bytes)
    except GeneratorExit:
        # The last finished segment may not have replaced any.
        with suppress(FileNotFoundError):
            _remove_cleaned_files(disk, request.directory)
        raise


def _take_turns(cleaning: CompactionPass, turn_bytes: int) -> Generator[Message, None, None]:
    io_bytes = 0
    with closing(cleaning.steps()) as steps:
        for step in steps:
            io_bytes += step.io_bytes
            if step.finished is not None or io_bytes >= turn_bytes:
                yield Progress(io_bytes=io_bytes, stats=cleaning.stats, finished=step.finished).to_message()
                io_bytes = 0
    yield Progress(io_bytes=io_bytes, stats=cleaning.stats, end_offset=cleaning.end_offset).to_message()


def _remove_cleaned_files(disk: Disk, directory: str) -> None:
    for name in disk.list_dir(directory):
        if name.endswith(names.CLEANED_SUFFIX):
            disk.remove(f"{directory}/{name}")


def _walk_for(log_bytes: int) -> Walk:
    if log_bytes < _WORTH_COMPILING_BYTES and not compiled_walk.cache_info().currsize:
        return INTERPRETED_WALK
    return compiled_walk() or INTERPRETED_WALK
