"""Produces orders to a topic, each exactly once, at a given rate."""

import threading
import time
from collections.abc import Sequence

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from examples.orders.generate import Order

# Longer than any restart of a broker: an order without an acknowledgement by then is reported as lost.
DELIVERY_TIMEOUT_MS = 120_000
UNACKNOWLEDGED_MAX = 2_000
BURST_SECONDS_MAX = 0.1


class OrderProducer:
    """Produces orders in a thread, idempotently, so that a retry after a broker failure adds no duplicate.

    `acknowledged` and `error` may be read from another thread at any time.
    """

    def __init__(self, bootstrap: str, topic: str, orders: Sequence[Order], orders_per_second: float) -> None:
        self._topic = topic
        self._orders = orders
        self._orders_per_second = orders_per_second
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="order-producer", daemon=True)
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "compression.type": "lz4",
                "linger.ms": 20,
                "delivery.timeout.ms": DELIVERY_TIMEOUT_MS,
                "reconnect.backoff.max.ms": 1_000,
                # Do not log a short broker outage; lost orders are reported.
                "log_level": 2,
            }
        )
        self.acknowledged = 0
        self.error: str | None = None

    def start(self) -> None:
        self._thread.start()

    @property
    def is_done(self) -> bool:
        return not self._thread.is_alive()

    def stop(self) -> None:
        """Stops without waiting for outstanding acknowledgements."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join()
        self._producer.purge()

    def _run(self) -> None:
        try:
            self._send_all()
        except KafkaException as error:
            self._fail(error.args[0].str())

    def _send_all(self) -> None:
        interval_seconds = 1.0 / self._orders_per_second
        send_at = time.monotonic()
        for order in self._orders:
            # After an outage, continue at the same rate instead of catching up.
            send_at = max(send_at + interval_seconds, time.monotonic() - BURST_SECONDS_MAX)
            while not self._stopping.is_set():
                wait_seconds = send_at - time.monotonic()
                if wait_seconds <= 0 and len(self._producer) < UNACKNOWLEDGED_MAX:
                    break
                self._producer.poll(min(max(wait_seconds, 0.001), 0.1))
            if self._stopping.is_set():
                return
            self._producer.produce(self._topic, order.to_json(), order.key, on_delivery=self._on_delivery)
        while len(self._producer) and not self._stopping.is_set():
            self._producer.poll(0.1)

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.acknowledged += 1
        else:
            self._fail(error.str())

    def _fail(self, reason: str) -> None:
        if self.error is None:
            self.error = f"an order was not acknowledged: {reason}"
