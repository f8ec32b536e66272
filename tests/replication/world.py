"""Brokers with one partition under a seeded scheduler: messages that are lost, late, doubled and overtake each other,
metadata that reaches each broker in its own time, processes that stop, die and lose power. A run is a function of its
seed."""

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
STRIKE_MS = 2
STRIKE_MS_MAX = 600


@dataclass(slots=True)
class Network:
    """Of one run. Times in ms."""

    delay_max_ms: int = 3
    slow_rate: float = 0.0
    slow_max_ms: int = 700
    loss_rate: float = 0.0
    doubling_rate: float = 0.0
    cut: set[tuple[int, int]] = field(default_factory=set)
    """From whom to whom nothing passes."""


@dataclass(frozen=True, slots=True)
class Rules:
    """Of one run."""

    brokers: int
    replication_factor: int
    min_isr: int
    syncs_first: bool
    """flush.messages=1: nothing counts before it is synced."""
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
        self.vague_rate = 0.0
        """How often the controller is about to change, and its answer says nothing of the outcome."""
        self.records_per_fetch_max = 30
        self.strikes: Callable[[int, Message], bool] = lambda broker_id, message: False
        """Whether a broker dies of having sent a Fetch, or of being proposed to be in sync. The message then arrives
        at the worst moment."""
        self.lines: list[str] | None = None
        """What happens, for people who want to read it."""
        self._queue: list[tuple[int, int, Callable[[], object]]] = []
        self._number = 0
        self._value = 0
        ids = range(1, rules.brokers + 1)
        self.controller = controller_type(tuple(ids)[: rules.replication_factor], rules.min_isr)
        self.checker = Checker(self.controller)
        self.brokers = {broker_id: broker_type(self, broker_id) for broker_id in ids}
        self._heard_at = dict.fromkeys(ids, 0)
        self._published_version = 0
        self._told_version = dict.fromkeys(ids, 0)
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
        """An answer names the `life` that has asked: it finds no later one. Questions outlive those who asked them."""
        network, random = self.network, self.random
        if (source, destination) in network.cut or random.random() < network.loss_rate:
            return
        source_life = self._life_of(source)

        def arrive() -> None:
            if (source, destination) in self.network.cut or life not in (None, self._life_of(destination)):
                return
            if destination == CONTROLLER:
                self._at_controller(source, source_life, message)
            else:
                self.brokers[destination].receive(source, source_life, message)

        struck = self._struck_by(source, message)
        if struck is not None:
            self._arrive_late(struck, self.now_ms + STRIKE_MS_MAX, arrive, is_about_isr=isinstance(message, Fetch))
            return
        for _ in range(2 if random.random() < network.doubling_rate else 1):
            is_slow = random.random() < network.slow_rate
            self.after(1 + random.randrange(network.slow_max_ms if is_slow else network.delay_max_ms), arrive)

    def _struck_by(self, source: int, message: Message) -> int | None:
        match message:
            case Fetch():
                victim = source
            case AlterPartition(proposal=proposal):
                victim = proposal.isr[-1].broker_id
            case _:
                return None
        return victim if self.strikes(victim, message) else None

    def _arrive_late(self, victim: int, until_ms: int, arrive: Callable[[], object], *, is_about_isr: bool) -> None:
        """Once the next life of the victim is known, and in sync again if it is about that."""

        def wait() -> None:
            image, broker = self.controller.image, self.brokers[victim]
            entry = image.brokers.get(victim)
            is_back = broker.is_running and entry is not None and entry.life == broker.life and entry.is_active
            if self.now_ms > until_ms or (is_back and (not is_about_isr or victim in image.partition.isr)):
                arrive()
            else:
                self.after(1, wait)

        self.after(STRIKE_MS, wait)

    def _life_of(self, node: int) -> int:
        return 0 if node == CONTROLLER else self.brokers[node].life

    # The controller's part

    def _at_controller(self, source: int, source_life: int, message: Message) -> None:
        controller = self.controller
        match message:
            case Register(broker_id, life, is_clean):
                if life == self.brokers[broker_id].life:
                    epoch = controller.register(broker_id, life, is_clean=is_clean)
                    self._heard_at[broker_id] = self.now_ms
                    self.send(CONTROLLER, source, Registered(epoch), source_life)
            case Heartbeat(broker_id, broker_epoch):
                self._heartbeat(broker_id, broker_epoch, message)
            case AlterPartition(broker_id, broker_epoch, proposal):
                is_vague = self.random.random() < self.vague_rate
                answer = controller.alter_partition(broker_id, broker_epoch, proposal)
                self.note(f"controller: {broker_id} proposes {proposal}: {answer}{' (vague)' if is_vague else ''}")
                told = ErrorCode.not_controller if is_vague else answer
                self.send(CONTROLLER, source, PartitionAltered(proposal, told), source_life)
        self.publish()

    def _heartbeat(self, broker_id: int, broker_epoch: int, message: Heartbeat) -> None:
        entry = self.controller.image.brokers.get(broker_id)
        if entry is None or entry.epoch != broker_epoch:
            return
        self._heard_at[broker_id] = self.now_ms
        if message.wants_shutdown:
            self.controller.begin_shutdown(broker_id)
        elif message.image_version >= entry.epoch:
            self.controller.unfence(broker_id)

    def _expire(self) -> None:
        for broker_id, entry in list(self.controller.image.brokers.items()):
            if not entry.fenced and self.now_ms - self._heard_at[broker_id] > SESSION_MS:
                self.controller.fence(broker_id)
        self.publish()
        self.after(ROUND_MS, self._expire)

    def publish(self) -> None:
        """Whoever can be reached hears of every image, in order."""
        self.checker.published()
        image = self.controller.image
        if image.version > self._published_version:
            self._published_version = image.version
            self.note(f"controller: image {image.version}: {image.partition}")
        for broker in self.brokers.values():
            is_cut = (CONTROLLER, broker.broker_id) in self.network.cut
            if broker.is_running and not is_cut and self._told_version[broker.broker_id] < image.version:
                self._told_version[broker.broker_id] = image.version
                self._tell(broker)

    def _tell(self, broker: Broker) -> None:
        life, version = broker.life, self.controller.image.version

        def arrive() -> None:
            if broker.life == life:
                broker.hear_of_images(version)

        self.after(1 + self.random.randrange(self.rules.metadata_delay_max_ms), arrive)

    def forget_told(self, broker_id: int) -> None:
        """A new process reads the metadata log from its start."""
        self._told_version[broker_id] = 0
        self.publish()
