"""Frees the clients of confluent-kafka in threads of their own.

librdkafka's `rd_kafka_destroy` sometimes waits forever for the thread of a broker that has left the cluster. Python
calls it when it frees a client, maybe much later and in the middle of another test, and no timeout can interrupt it
there. A thread that does nothing else may wait.
"""

import importlib.util
import queue
import threading
from typing import Final

FREE_SECONDS_MAX: Final = 5.0
"""Then the next client is freed, while the thread of this one keeps waiting."""


class Freer:
    def __init__(self) -> None:
        self._unused: Final[queue.SimpleQueue[object]] = queue.SimpleQueue()
        threading.Thread(target=self._free_all, name="freed-clients", daemon=True).start()

    def add(self, client: object) -> None:
        """Called by the garbage collector too, so it only queues the client."""
        self._unused.put(client)

    def _free_all(self) -> None:
        while True:
            last_reference = [self._unused.get()]
            thread = threading.Thread(target=last_reference.clear, name="freed-client", daemon=True)
            thread.start()
            thread.join(FREE_SECONDS_MAX)


def install() -> None:
    """Before other modules import the classes."""
    if importlib.util.find_spec("confluent_kafka") is None:
        return
    import confluent_kafka
    from confluent_kafka.admin import AdminClient

    freer = Freer()

    def finalize(client: object) -> None:
        """Runs once, before Python frees the client, and keeps it."""
        freer.add(client)

    for name in ("Producer", "Consumer"):
        native = getattr(confluent_kafka, name)
        setattr(confluent_kafka, name, type(name, (native,), {"__del__": finalize}))
    AdminClient.__del__ = finalize  # type: ignore[attr-defined]
