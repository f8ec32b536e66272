"""A client of confluent-kafka that is no longer used is freed in a thread of its own."""

import threading
import weakref

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from tests.freed_clients import Freer

NOWHERE = "127.0.0.1:1"
SECONDS_MAX = 60.0


class NeverFreed:
    def __init__(self, may_end: threading.Event) -> None:
        self._may_end = may_end

    def __del__(self) -> None:
        self._may_end.wait(2 * SECONDS_MAX)


def test_clients_are_freed_in_another_thread() -> None:
    for new_client in (
        lambda: Producer({"bootstrap.servers": NOWHERE}),
        lambda: Consumer({"bootstrap.servers": NOWHERE, "group.id": "freed"}),
        lambda: AdminClient({"bootstrap.servers": NOWHERE}),
    ):
        threads: list[str] = []
        is_freed = threading.Event()

        def on_free(_: object, threads: list[str] = threads, is_freed: threading.Event = is_freed) -> None:
            threads.append(threading.current_thread().name)
            is_freed.set()

        client = new_client()
        reference = weakref.ref(client, on_free)
        del client
        assert is_freed.wait(SECONDS_MAX)
        assert reference() is None
        assert threads == ["freed-client"]


def test_a_client_that_is_never_freed_does_not_block_the_others() -> None:
    freer, may_end, is_freed = Freer(), threading.Event(), threading.Event()
    other = threading.Event()
    weakref.finalize(other, is_freed.set)
    freer.add(NeverFreed(may_end))
    freer.add(other)
    del other
    try:
        assert is_freed.wait(SECONDS_MAX)
    finally:
        may_end.set()
