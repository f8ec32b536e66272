"""One seed's story: a partition, a few seconds of faults, then healing, and the question whether it goes on.

Faults stay within one of the three promises, as chosen by the seed: processes die, some or all of them; or fewer than
min ISR of them at a time lose power; or all of them do, and nothing counts before it is synced.
"""

from enum import Enum
from random import Random

from tests.replication.broker import Broker
from tests.replication.checker import Violation
from tests.replication.controller import NOBODY, Controller
from tests.replication.messages import AlterPartition, Message
from tests.replication.world import CONTROLLER, STRIKE_MS, Network, Rules, World

FAULTS_MS = 4_000
HEALING_MS = 8_000


class Promise(Enum):
    PROCESSES_DIE = "A"
    SOME_LOSE_POWER = "B"
    ALL_LOSE_POWER = "C"


class Scenario:
    def __init__(
        self,
        seed: int,
        *,
        broker_type: type[Broker] = Broker,
        controller_type: type[Controller] = Controller,
    ) -> None:
        self.random = random = Random(seed)
        self.promise = random.choice((*Promise, Promise.SOME_LOSE_POWER))
        factor = random.choice((2, 3, 3, 3))
        rules = Rules(
            brokers=factor + random.choice((0, 1)),
            replication_factor=factor,
            min_isr=random.choice((1, 2)) if factor == 2 else random.choice((1, 2, 2, 2, 3)),
            syncs_first=self.promise is Promise.ALL_LOSE_POWER,
            lag_max_ms=random.choice((60, 150, 400)),
            metadata_delay_max_ms=random.choice((4, 4, 40, 250)),
        )
        self.world = World(seed, rules, broker_type=broker_type, controller_type=controller_type)
        self.world.network = Network(
            slow_rate=random.choice((0.0, 0.02, 0.1)),
            slow_max_ms=random.choice((100, 700)),
            loss_rate=random.choice((0.0, 0.02, 0.1)),
            doubling_rate=random.choice((0.0, 0.05, 0.2)),
        )
        self.world.vague_rate = random.choice((0.0, 0.05, 0.3))
        if random.random() < 0.5:
            self.world.strikes = self._strikes
        self.world.records_per_fetch_max = random.choice((1, 4, 30))
        self._pace_max_ms = random.choice((6, 30))
        self._damaged: set[int] = set()
        """Died uncleanly, and not in sync since."""

    def run(self) -> None:
        world = self.world
        world.note(f"promise {self.promise.value}, {world.rules}")
        for broker in self._brokers():
            broker.start()
        self._produce_on()
        at_ms = 300
        gap_max_ms = self.random.choice((60, 200, 500))
        while at_ms < FAULTS_MS:
            world.after(at_ms, self._break_something)
            at_ms += self.random.randrange(1, gap_max_ms)
        world.run(FAULTS_MS)
        self._heal()
        acknowledged = world.checker.acknowledged
        if not world.run(FAULTS_MS + HEALING_MS, lambda: self._is_well(acknowledged)):
            ends = {broker.broker_id: broker.log.log_end_offset for broker in self._brokers()}
            raise Violation("progress once the faults are gone", f"{world.controller.image.partition}, logs to {ends}")
        world.checker.check_all()

    def _brokers(self) -> list[Broker]:
        return list(self.world.brokers.values())

    def _is_well(self, acknowledged: int) -> bool:
        """Something new is acknowledged, and all replicas are in sync and equal."""
        controller, checker = self.world.controller, self.world.checker
        partition = controller.image.partition
        if checker.acknowledged < acknowledged + 5 or set(partition.isr) != set(partition.replicas):
            return False
        return controller.target is None

    def _produce_on(self) -> None:
        for broker in self._brokers():
            broker.produce()
        self.world.after(self.random.randrange(1, self._pace_max_ms), self._produce_on)

    # Faults

    def _break_something(self) -> None:
        action = self.random.choice(
            (
                self._crash_one,
                self._crash_one,
                self._crash_one,
                self._crash_all,
                self._stop_one,
                self._stop_one,
                self._isolate,
                self._isolate,
                self._cut_from_controller,
                self._cut_replication,
                self._cut_replication,
                self._pause,
                self._move_leader,
                self._flicker,
                self._flicker,
                self._delete,
                self._reassign,
            )
        )
        action()

    def _target(self) -> Broker:
        """The leader more often than others."""
        leading = [broker for broker in self._brokers() if broker.leader is not None]
        if leading and self.random.random() < 0.4:
            return self.random.choice(leading)
        return self.random.choice(self._brokers())

    def _may_die(self, broker: Broker) -> bool:
        if self.promise is not Promise.SOME_LOSE_POWER:
            return True
        image = self.world.controller.image
        for one in list(self._damaged):
            entry = image.brokers.get(one)
            if entry is not None and entry.life == self.world.brokers[one].life and one in image.partition.isr:
                self._damaged.discard(one)
        return len(self._damaged | {broker.broker_id}) < self.world.rules.min_isr

    def _crash(self, broker: Broker, delay_max_ms: int | None = None) -> None:
        if not broker.is_running or not self._may_die(broker):
            return
        self._damaged.add(broker.broker_id)
        loses_power = self.promise is not Promise.PROCESSES_DIE and self.random.random() < 0.7
        broker.crash(loses_power=loses_power)
        self._start_later(broker, delay_max_ms or self.random.choice((3, 50, 300, 900)))

    def _start_later(self, broker: Broker, delay_max_ms: int) -> None:
        life = broker.life

        def start() -> None:
            if broker.life == life:
                broker.start()

        self.world.after(self.random.randrange(1, delay_max_ms), start)

    def _crash_one(self) -> None:
        self._crash(self._target())

    def _crash_all(self) -> None:
        for broker in self._brokers():
            self._crash(broker)

    def _stop_one(self) -> None:
        """Leaderships move away first, if that is possible in time."""
        broker = self._target()
        if not broker.is_running or broker.is_leaving:
            return
        broker.is_leaving = True
        life = broker.life

        def stop() -> None:
            if broker.life == life:
                broker.stop()
                self._start_later(broker, self.random.choice((50, 500)))

        self.world.after(self.random.randrange(20, 300), stop)

    def _cut(self, pairs: set[tuple[int, int]]) -> None:
        self.world.note(f"cut: {sorted(pairs)}")
        self.world.network.cut |= pairs
        delay_ms = self.random.choice((100, 400, 1000))

        def mend() -> None:
            self.world.network.cut -= pairs

        self.world.after(self.random.randrange(20, delay_ms), mend)

    def _isolate(self) -> None:
        one = self._target().broker_id
        others = [CONTROLLER, *(other for other in self.world.brokers if other != one)]
        self._cut({(one, other) for other in others} | {(other, one) for other in others})

    def _cut_from_controller(self) -> None:
        one = self._target().broker_id
        both = {(one, CONTROLLER), (CONTROLLER, one)}
        self._cut(self.random.choice((both, {(one, CONTROLLER)}, {(CONTROLLER, one)})))

    def _cut_replication(self) -> None:
        """A follower that lags, while the controller sees nothing wrong."""
        one, other = self._target().broker_id, self.random.choice(list(self.world.brokers))
        self._cut({(one, other), (other, one)} if self.random.random() < 0.5 else {(one, other)})

    def _pause(self) -> None:
        broker = self._target()
        duration_ms = self.random.choice((50, 200, 600))
        self.world.note(f"{broker.broker_id} is paused for {duration_ms} ms")
        broker.paused_until_ms = max(broker.paused_until_ms, self.world.now_ms + duration_ms)

    def _move_leader(self) -> None:
        broker_id = self.random.choice(list(self.world.brokers))
        self.world.note(f"leadership is to move to {broker_id}")
        self.world.controller.move_leader(broker_id)
        self.world.publish()

    def _flicker(self) -> None:
        """The leadership goes away and comes back, and not everybody hears of it in time."""
        before = self.world.controller.image.partition.leader
        self._move_leader()

        def move_back() -> None:
            if before != NOBODY:
                self.world.controller.move_leader(before)
                self.world.publish()

        self.world.after(self.random.randrange(1, 60), move_back)

    def _strikes(self, broker_id: int, message: Message) -> bool:
        """What it has said, or what is said of it, arrives when it has lost what it had: is it taken for true?"""
        broker = self.world.brokers[broker_id]
        rate = 0.3 if isinstance(message, AlterPartition) else 0.02
        if self.world.now_ms > FAULTS_MS or self.random.random() > rate or not self._may_die(broker):
            return False
        self.world.after(STRIKE_MS - 1, lambda: self._crash(broker, delay_max_ms=20))
        return True

    def _delete(self) -> None:
        self._target().delete_records(self.random.random())

    def _reassign(self) -> None:
        partition = self.world.controller.image.partition
        strangers = [one for one in self.world.brokers if one not in partition.replicas]
        if not strangers or self.world.controller.target is not None:
            return
        leaving = self.random.choice(partition.replicas)
        target = tuple(strangers[0] if one == leaving else one for one in partition.replicas)
        self.world.note(f"reassignment to {target}")
        self.world.controller.reassign(target)
        self.world.publish()

    def _heal(self) -> None:
        self.world.note("healing")
        self.world.network = Network()
        self._pace_max_ms = 60
        self.world.records_per_fetch_max = 30
        for broker in self._brokers():
            broker.paused_until_ms = 0
            if not broker.is_running:
                broker.start()
