"""Readers and flushes in other threads during appends."""

import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

from odradek.base.errors import ErrorCode, KafkaError
from odradek.records.batch import check_crc, parse_batches
from tests.unit.storage.log.log_support import NOW_MS, LogBox, batch, config

SECONDS = 1.5


@contextmanager
def beside(*jobs: Callable[[], None]) -> Iterator[None]:
    """Runs the jobs repeatedly in their own threads; reraises their errors."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    stop = threading.Event()
    errors: list[BaseException] = []

    def loop(job: Callable[[], None]) -> None:
        try:
            while not stop.is_set():
                job()
        except BaseException as error:  # noqa: BLE001 - raised again in the test's own thread
            errors.append(error)

    threads = [threading.Thread(target=loop, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        sys.setswitchinterval(interval)
    if errors:
        raise errors[0]


def test_concurrent_readers_see_whole_batches(tmp_path: Path) -> None:
    box = LogBox(tmp_path, config=config(segment_bytes=4000, index_interval_bytes=300, retention_bytes=20_000))
    log = box.log
    choose = random.Random(3)

    def read(cached: bool) -> None:
        start, end = log.log_start_offset, log.log_end_offset
        offset = choose.randint(start, end)
        try:
            found = (log.read_cached if cached else log.read)(
                offset, choose.choice((1, 500, 5000)), end_offset_exclusive=end
            )
        except KafkaError as error:
            # Retention passed the offset between check and read.
            assert error.code is ErrorCode.offset_out_of_range
            assert offset < log.log_start_offset
            return
        if found is None:
            return
        headers = parse_batches(found.data)
        for header in headers:
            check_crc(found.data, header)
            assert header.last_offset < end
            assert header.producer_id == header.base_offset
        if headers:
            assert headers[0].base_offset <= offset <= headers[0].last_offset
            for one, following in pairwise(headers):
                assert one.next_offset == following.base_offset

    deadline = time.monotonic() + SECONDS
    with beside(lambda: read(True), lambda: read(False), log.flush):
        while time.monotonic() < deadline or not log.log_start_offset:
            for _ in range(50):
                offset = log.log_end_offset
                # The producer ID encodes the batch's offset.
                box.append(batch(3, size=20, producer_id=offset, producer_epoch=0, base_sequence=0))
            log.release_files()
            log.delete_old_segments(NOW_MS, log.log_end_offset)
            log.remove_deleted(NOW_MS + 10**9)
    assert log.log_start_offset > 0
    assert log.recovery_point <= log.log_end_offset


def test_last_stable_offset_stays_below_open_transactions(tmp_path: Path) -> None:
    """Appends run in a thread if the disk is slow, while fetches read the offset."""
    box = LogBox(tmp_path)
    log = box.log
    high_watermark = 0
    read_count = 0

    def read_stable_offset() -> None:
        nonlocal read_count
        before = high_watermark
        stable = log.last_stable_offset(before)
        # The record before the high watermark is in a transaction whose marker is beyond it.
        if high_watermark == before > 0:
            assert stable == before - 1
            read_count += 1

    deadline = time.monotonic() + SECONDS
    with beside(read_stable_offset, read_stable_offset):
        while time.monotonic() < deadline or not read_count:
            for _ in range(50):
                producer_id = log.log_end_offset
                box.produce(producer_id, 0, is_transactional=True)
                high_watermark = log.log_end_offset
                box.end_transaction(producer_id, commit=True)
                high_watermark = 0
                log.last_stable_offset(log.log_end_offset)
    assert read_count > 0
    assert log.last_stable_offset(log.log_end_offset) == log.log_end_offset


def test_read_of_a_deleted_partition_is_not_a_disk_failure(tmp_path: Path) -> None:
    for attempt in range(20):
        box = LogBox(tmp_path / str(attempt), config=config(segment_bytes=200))
        for _ in range(10):
            box.append(batch(1, size=50))
        log = box.log
        log.release_files()

        def read(log=log) -> None:  # type: ignore[no-untyped-def]
            log.release_files()
            try:
                log.read(3, 1000, end_offset_exclusive=10)
            except KafkaError as error:
                assert error.code is ErrorCode.not_leader_or_follower

        with beside(read, read):
            log.move_to(str(tmp_path / str(attempt) / "orders-0.abc-delete"))
