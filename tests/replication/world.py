"""Brokers with one partition under a seeded scheduler.

Messages are lost, delayed, duplicated and reordered, each broker applies metadata with its own delay, and processes
stop, die and lose power. A seed determines the whole run.
"""

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from odradek.base.errors import ErrorCode
from tests.replication.broker import Broker
from tests.replication.checker import Checker
from tests.replication.controller import Controller
from tests.replication.messages import (
    AlterPartition,
    Fetch,
    Heartbeat,
    Message,
    PartitionAltered,
    Register,
    Registered,
)

CONTROLLER = 0
SESSION_MS = 150
ROUND_MS = 30
CRASH_DELAY_MS = 2
CRASH_DELAY_MS_MAX = 600


@dataclass(slots=True)
class Network:
    """The faults of the network in one run."""

    delay_max_ms: int = 3
    slow_rate: float = 0.0
    slow_max_ms: int = 700
    loss_rate: float = 0.0
    duplicate_rate: float = 0.0
    dropped_pairs: set[tuple[int, int]] = field(default_factory=set)
    """Pairs (source, destination) between which all messages are dropped."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The configuration of one run."""

    brokers: int
    replication_factor: int
    min_isr: int
    syncs_first: bool
    """flush.messages=1: records count only once they are synced."""
    lag_max_ms: int
    metadata_delay_max_ms: int


class World:
    def __init__(
        self,
        seed: int,
        rules: Rules,
        *,
        broker_type: type[Broker] = Broker,
        controller_type: type[Controller] = Controller,
    ) -> None:
        self.random = Random(seed)
        self.rules = rules
        self.now_ms = 0
        self.network = Network()
        self.unknown_outcome_rate = 0.0
        """Share of AlterPartition responses that fail with NOT_CONTROLLER although the change may have been applied."""
        self.records_per_fetch_max = 30
        self.should_crash: Callable[[int, Message], bool] = lambda broker_id, message: False
        """Whether a broker crashes after it has sent a Fetch or has been proposed for the ISR. The message then arrives
        after the broker's restart."""
        self.lines: list[str] | None = None
        """The events of the run as text, if requested."""
        self._queue: list[tuple[int, int, Callable[[], object]]] = []
        self._number = 0
        self._value = 0
        ids = range(1, rules.brokers + 1)
        self.controller = controller_type(tuple(ids)[: rules.replication_factor], rules.min_isr)
        self.checker = Checker(self.controller)
        self.brokers = {broker_id: broker_type(self, broker_id) for broker_id in ids}
        self._last_heartbeat_ms = dict.fromkeys(ids, 0)
        self._published_version = 0
        self._sent_version = dict.fromkeys(ids, 0)
        for broker in self.brokers.values():
            self.checker.watch(broker)
        self.after(ROUND_MS, self._expire)

    @property
    def now(self) -> float:
        return self.now_ms / 1000

    def note(self, text: str) -> None:
        if self.lines is not None:
            self.lines.append(f"{self.now_ms:5} ms  {text}")

    def next_value(self) -> int:
        self._value += 1
        return self._value

    # Time

    def after(self, delay_ms: float, action: Callable[[], object]) -> None:
        self._number += 1
        heapq.heappush(self._queue, (self.now_ms + max(0, round(delay_ms)), self._number, action))

    def run(self, until_ms: int, is_done: Callable[[], bool] = lambda: False) -> bool:
        while self._queue and self._queue[0][0] <= until_ms:
            self.now_ms, _, action = heapq.heappop(self._queue)
            action()
            if is_done():
                return True
        self.now_ms = until_ms
        return is_done()

    # Messages

    def send(self, source: int, destination: int, message: Message, life: int | None = None) -> None:
        """A response carries the requester's `life` and is dropped after its restart; requests are always delivered."""
        network, random = self.network, self.random
        if (source, destination) in network.dropped_pairs or random.random() < network.loss_rate:
            return
        source_life = self._life_of(source)

        def arrive() -> None:
            if (source, destination) in self.network.dropped_pairs or life not in (None, self._life_of(destination)):
                return
            if destination == CONTROLLER:
                self._at_controller(source, source_life, message)
            else:
                self.brokers[destination].receive(source, source_life, message)

        victim_id = self._broker_to_crash(source, message)
        if victim_id is not None:
            self._deliver_after_restart(
                victim_id, self.now_ms + CRASH_DELAY_MS_MAX, arrive, is_about_isr=isinstance(message, Fetch)
            )
            return
        for _ in range(2 if random.random() < network.duplicate_rate else 1):
            is_slow = random.random() < network.slow_rate
            self.after(1 + random.randrange(network.slow_max_ms if is_slow else network.delay_max_ms), arrive)

    def _broker_to_crash(self, source: int, message: Message) -> int | None:
        match message:
            case Fetch():
                victim = source
            case AlterPartition(proposal=proposal):
                victim = proposal.isr[-1].broker_id
            case _:
                return None
        return victim if self.should_crash(victim, message) else None

    def _deliver_after_restart(
        self, victim: int, until_ms: int, arrive: Callable[[], object], *, is_about_isr: bool
    ) -> None:
        """Delivers the message once the restarted broker is registered and, for a Fetch, in the ISR again."""

        def wait() -> None:
            image, broker = self.controller.image, self.brokers[victim]
            entry = image.brokers.get(victim)
            is_back = broker.is_running and entry is not None and entry.life == broker.life and entry.is_active
            if self.now_ms > until_ms or (is_back and (not is_about_isr or victim in image.partition.isr)):
                arrive()
            else:
                self.after(1, wait)

        self.after(CRASH_DELAY_MS, wait)

    def _life_of(self, node: int) -> int:
        return 0 if node == CONTROLLER else self.brokers[node].life

    # The controller
    def _at_controller(self, source: int, source_life: int, message: Message) -> None:
        controller = self.controller
        match message:
            case Register(broker_id, life, is_clean):
                if life == self.brokers[broker_id].life:
                    epoch = controller.register(broker_id, life, is_clean=is_clean)
                    self._last_heartbeat_ms[broker_id] = self.now_ms
                    self.send(CONTROLLER, source, Registered(epoch), source_life)
            case Heartbeat(broker_id, broker_epoch):
                self._heartbeat(broker_id, broker_epoch, message)
            case AlterPartition(broker_id, broker_epoch, proposal):
                is_outcome_unknown = self.random.random() < self.unknown_outcome_rate
                result = controller.alter_partition(broker_id, broker_epoch, proposal)
                suffix = " (outcome unknown)" if is_outcome_unknown else ""
                self.note(f"controller: {broker_id} proposes {proposal}: {result}{suffix}")
                response = ErrorCode.not_controller if is_outcome_unknown else result
                self.send(CONTROLLER, source, PartitionAltered(proposal, response), source_life)
        self.publish()

    def _heartbeat(self, broker_id: int, broker_epoch: int, message: Heartbeat) -> None:
        entry = self.controller.image.brokers.get(broker_id)
        if entry is None or entry.epoch != broker_epoch:
            return
        self._last_heartbeat_ms[broker_id] = self.now_ms
        if message.wants_shutdown:
            self.controller.begin_shutdown(broker_id)
        elif message.image_version >= entry.epoch:
            self.controller.unfence(broker_id)

    def _expire(self) -> None:
        for broker_id, entry in list(self.controller.image.brokers.items()):
            if not entry.fenced and self.now_ms - self._last_heartbeat_ms[broker_id] > SESSION_MS:
                self.controller.fence(broker_id)
        self.publish()
        self.after(ROUND_MS, self._expire)

    def publish(self) -> None:
        """Sends every image, in order, to each reachable broker."""
        self.checker.on_image_published()
        image = self.controller.image
        if image.version > self._published_version:
            self._published_version = image.version
            self.note(f"controller: image {image.version}: {image.partition}")
        for broker in self.brokers.values():
            is_unreachable = (CONTROLLER, broker.broker_id) in self.network.dropped_pairs
            if broker.is_running and not is_unreachable and self._sent_version[broker.broker_id] < image.version:
                self._sent_version[broker.broker_id] = image.version
                self._send_image(broker)

    def _send_image(self, broker: Broker) -> None:
        life, version = broker.life, self.controller.image.version

        def arrive() -> None:
            if broker.life == life:
                broker.on_images(version)

        self.after(1 + self.random.randrange(self.rules.metadata_delay_max_ms), arrive)

    def resend_images(self, broker_id: int) -> None:
        """A new process reads the metadata log from its start."""
        self._sent_version[broker_id] = 0
        self.publish()
