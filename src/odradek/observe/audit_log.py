"""Writes the audit log in a thread of its own: a disk that hangs, or is full, does not delay the node.

The queue is bounded. Events that do not fit, or cannot be written, are counted, and an event in the file says how many
are missing.
"""

import errno
import logging
import threading
from collections import Counter, deque
from collections.abc import Callable
from typing import Final, NamedTuple

from odradek.base.ports import Clock
from odradek.core.audit.event import DROPPED, FAILURE, STARTED, SUCCESS, AuditEvent, fields_of, line_of
from odradek.core.audit.ocsf import ocsf_fields_of
from odradek.host.rotated_file import RotatedFile
from odradek.observe.audit_readings import audit_families
from odradek.observe.families import Family
from odradek.server.audit.trail import BuildEvents

logger = logging.getLogger(__name__)

QUEUED_MAX: Final = 20_000
"""Events that wait to be written."""
QUEUED_REJECTIONS_MAX: Final = 5_000
"""Failed logins and denials are dropped from here on: the rest is for changes."""
DROPPED_EVERY_SECONDS: Final = 1.0
OPEN_SECONDS_MAX: Final = 5.0
STOP_SECONDS_MAX: Final = 2.0
_DISK_FULL: Final = (errno.ENOSPC, errno.EDQUOT)
OCSF: Final = "ocsf"


class _Entry(NamedTuple):
    build: BuildEvents
    size: int


class AuditLog:
    """The `AuditSink` of a node."""

    def __init__(
        self, file: RotatedFile, node_id: int, clock: Clock, *, format_name: str = "json", version: str = ""
    ) -> None:
        self._file: Final = file
        self._node_id: Final = node_id
        self._clock: Final = clock
        self._encode: Final = _encoder(format_name, version)
        self._changed: Final = threading.Condition()
        self._queue: Final[deque[_Entry]] = deque()
        self._queued = 0
        self._unreported: Final[Counter[str]] = Counter()
        """Dropped events that no event in the file has counted yet, by reason."""
        self._is_closing = False
        self._is_failing = False
        self._thread: threading.Thread | None = None
        self._has_tried: Final = threading.Event()
        """To open the file."""
        self._open_error: OSError | None = None
        self.written = 0
        self.dropped: Final[Counter[str]] = Counter({"queue": 0, "rate": 0, "write": 0})
        """By reason."""

    def start(self) -> None:
        """Blocks until the file is open, for a limited time. Raises OSError if it cannot be opened, other than because
        its disk is full."""
        self._thread = threading.Thread(target=self._open_and_run, name="odradek-audit-log", daemon=True)
        self._thread.start()
        if not self._has_tried.wait(OPEN_SECONDS_MAX):
            logger.error("Cannot open the audit log: its disk does not respond. Events are lost until it does")
        elif self._open_error is not None:
            raise self._open_error
        event = AuditEvent(self._clock.wall_ms(), self._node_id, STARTED, SUCCESS)
        self.offer(lambda: (event,))

    def stop(self) -> bool:
        """Blocks until everything is written, for a limited time. Whether it is."""
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(STOP_SECONDS_MAX)
            if self._thread.is_alive():
                logger.warning("Audit log not written completely: its disk does not respond")
                return False
        return True

    # AuditSink

    def offer(self, build: BuildEvents, *, size: int = 1, is_change: bool = False) -> None:
        limit = QUEUED_MAX if is_change else QUEUED_REJECTIONS_MAX
        with self._changed:
            # A change of any size fits an empty queue.
            if self._is_closing or (self._queued and self._queued + size > limit):
                self._count_dropped("queue", size)
            else:
                self._queue.append(_Entry(build, size))
                self._queued += size
            self._changed.notify()

    def count_dropped(self, reason: str) -> None:
        with self._changed:
            self._count_dropped(reason, 1)
            self._changed.notify()

    def _count_dropped(self, reason: str, count: int) -> None:
        self.dropped[reason] += count
        self._unreported[reason] += count

    # The thread

    def _open_and_run(self) -> None:
        try:
            self._file.open()
        except OSError as error:
            if error.errno not in _DISK_FULL:
                self._open_error = error
                return
        finally:
            self._has_tried.set()
        self._run()

    def _run(self) -> None:
        reported_at = float("-inf")
        while True:
            with self._changed:
                while not self._queue and not self._is_closing:
                    left = DROPPED_EVERY_SECONDS - (self._clock.monotonic() - reported_at)
                    if self._unreported and left <= 0:
                        break
                    self._changed.wait(left if self._unreported else None)
                entry = self._queue.popleft() if self._queue else None
                is_closing = self._is_closing
            if entry is not None:
                self._write(entry)
            if self._unreported and (
                self._clock.monotonic() - reported_at >= DROPPED_EVERY_SECONDS or (is_closing and entry is None)
            ):
                reported_at = self._clock.monotonic()
                self._report_dropped()
            if is_closing and entry is None:
                self._file.close()
                return

    def _write(self, entry: _Entry) -> None:
        try:
            for event in entry.build():
                self._append(event)
        except Exception:
            # A bug in the description of one request must not end the log.
            logger.exception("Audit event could not be built")
            with self._changed:
                self._count_dropped("write", 1)
        finally:
            with self._changed:
                self._queued -= entry.size

    def _append(self, event: AuditEvent) -> bool:
        try:
            self._file.append(self._encode(event))
        except OSError as error:
            if not self._is_failing:
                self._is_failing = True
                logger.error("Cannot write the audit log: %s. Events are lost until it can be written", error)
            if event.event != DROPPED:
                with self._changed:
                    self._count_dropped("write", 1)
            return False
        if self._is_failing:
            self._is_failing = False
            logger.warning("The audit log can be written again")
        self.written += 1
        return True

    def _report_dropped(self) -> None:
        with self._changed:
            missing = dict(self._unreported)
        event = AuditEvent(
            self._clock.wall_ms(), self._node_id, DROPPED, FAILURE, after={"count": sum(missing.values()), **missing}
        )
        if self._append(event):
            with self._changed:
                self._unreported.subtract(missing)
                for reason in [reason for reason, count in self._unreported.items() if count <= 0]:
                    del self._unreported[reason]

    # Metrics

    async def families(self) -> list[Family]:
        return audit_families(self.written, self.dropped)


def _encoder(format_name: str, version: str) -> Callable[[AuditEvent], bytes]:
    if format_name == OCSF:
        return lambda event: line_of(ocsf_fields_of(event, version))
    return lambda event: line_of(fields_of(event))
