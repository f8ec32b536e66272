"""One seed: a partition, a few seconds of faults, then recovery, and a check that the partition makes progress.

The seed chooses one of the three guarantees, and the faults stay within it: any number of processes die (A), fewer than
min ISR brokers lose power at a time (B), or all brokers lose power and records count only once they are synced (C).
"""

from enum import Enum
from random import Random

from tests.replication.broker import Broker
from tests.replication.checker import Violation
from tests.replication.controller import NO_BROKER, Controller
from tests.replication.messages import AlterPartition, Message
from tests.replication.world import CONTROLLER, CRASH_DELAY_MS, Network, Rules, World

FAULTS_MS = 4_000
HEALING_MS = 8_000


class Guarantee(Enum):
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
        self.guarantee = random.choice((*Guarantee, Guarantee.SOME_LOSE_POWER))
        factor = random.choice((2, 3, 3, 3))
        rules = Rules(
            brokers=factor + random.choice((0, 1)),
            replication_factor=factor,
            min_isr=random.choice((1, 2)) if factor == 2 else random.choice((1, 2, 2, 2, 3)),
            syncs_first=self.guarantee is Guarantee.ALL_LOSE_POWER,
            lag_max_ms=random.choice((60, 150, 400)),
            metadata_delay_max_ms=random.choice((4, 4, 40, 250)),
        )
        self.world = World(seed, rules, broker_type=broker_type, controller_type=controller_type)
        self.world.network = Network(
            slow_rate=random.choice((0.0, 0.02, 0.1)),
            slow_max_ms=random.choice((100, 700)),
            loss_rate=random.choice((0.0, 0.02, 0.1)),
            duplicate_rate=random.choice((0.0, 0.05, 0.2)),
        )
        self.world.unknown_outcome_rate = random.choice((0.0, 0.05, 0.3))
        if random.random() < 0.5:
            self.world.should_crash = self._should_crash
        self.world.records_per_fetch_max = random.choice((1, 4, 30))
        self._pace_max_ms = random.choice((6, 30))
        self._damaged: set[int] = set()
        """Brokers that died uncleanly and have not returned to the ISR."""

    def run(self) -> None:
        world = self.world
        world.note(f"guarantee {self.guarantee.value}, {world.rules}")
        for broker in self._brokers():
            broker.start()
        self._keep_producing()
        at_ms = 300
        gap_max_ms = self.random.choice((60, 200, 500))
        while at_ms < FAULTS_MS:
            world.after(at_ms, self._inject_fault)
            at_ms += self.random.randrange(1, gap_max_ms)
        world.run(FAULTS_MS)
        self._heal()
        acknowledged = world.checker.acknowledged
        if not world.run(FAULTS_MS + HEALING_MS, lambda: self._has_recovered(acknowledged)):
            ends = {broker.broker_id: broker.log.log_end_offset for broker in self._brokers()}
            raise Violation("progress after the faults heal", f"{world.controller.image.partition}, logs to {ends}")
        world.checker.check_all()

    def _brokers(self) -> list[Broker]:
        return list(self.world.brokers.values())

    def _has_recovered(self, acknowledged: int) -> bool:
        """New records are acknowledged and all replicas are in the ISR."""
        controller, checker = self.world.controller, self.world.checker
        partition = controller.image.partition
        if checker.acknowledged < acknowledged + 5 or set(partition.isr) != set(partition.replicas):
            return False
        return controller.target is None

    def _keep_producing(self) -> None:
        for broker in self._brokers():
            broker.produce()
        self.world.after(self.random.randrange(1, self._pace_max_ms), self._keep_producing)

    # Faults

    def _inject_fault(self) -> None:
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
                self._isolate_from_controller,
                self._delay_replication,
                self._delay_replication,
                self._pause,
                self._move_leader,
                self._move_leader_and_back,
                self._move_leader_and_back,
                self._delete,
                self._reassign,
            )
        )
        action()

    def _target(self) -> Broker:
        """Prefers the leader."""
        leading = [broker for broker in self._brokers() if broker.leader is not None]
        if leading and self.random.random() < 0.4:
            return self.random.choice(leading)
        return self.random.choice(self._brokers())

    def _may_die(self, broker: Broker) -> bool:
        if self.guarantee is not Guarantee.SOME_LOSE_POWER:
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
        loses_power = self.guarantee is not Guarantee.PROCESSES_DIE and self.random.random() < 0.7
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
        """Controlled shutdown: the leadership moves first, if that completes in time."""
        broker = self._target()
        if not broker.is_running or broker.is_shutting_down:
            return
        broker.is_shutting_down = True
        life = broker.life

        def stop() -> None:
            if broker.life == life:
                broker.stop()
                self._start_later(broker, self.random.choice((50, 500)))

        self.world.after(self.random.randrange(20, 300), stop)

    def _drop_messages(self, pairs: set[tuple[int, int]]) -> None:
        self.world.note(f"network partition: {sorted(pairs)}")
        self.world.network.dropped_pairs |= pairs
        delay_ms = self.random.choice((100, 400, 1000))

        def restore() -> None:
            self.world.network.dropped_pairs -= pairs

        self.world.after(self.random.randrange(20, delay_ms), restore)

    def _isolate(self) -> None:
        one = self._target().broker_id
        others = [CONTROLLER, *(other for other in self.world.brokers if other != one)]
        self._drop_messages({(one, other) for other in others} | {(other, one) for other in others})

    def _isolate_from_controller(self) -> None:
        one = self._target().broker_id
        both = {(one, CONTROLLER), (CONTROLLER, one)}
        self._drop_messages(self.random.choice((both, {(one, CONTROLLER)}, {(CONTROLLER, one)})))

    def _delay_replication(self) -> None:
        """Makes a follower lag while its heartbeats still arrive."""
        one, other = self._target().broker_id, self.random.choice(list(self.world.brokers))
        self._drop_messages({(one, other), (other, one)} if self.random.random() < 0.5 else {(one, other)})

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

    def _move_leader_and_back(self) -> None:
        """Moves the leadership away and back before all brokers have applied the first change."""
        before = self.world.controller.image.partition.leader
        self._move_leader()

        def move_back() -> None:
            if before != NO_BROKER:
                self.world.controller.move_leader(before)
                self.world.publish()

        self.world.after(self.random.randrange(1, 60), move_back)

    def _should_crash(self, broker_id: int, message: Message) -> bool:
        """Delivers a broker's Fetch, or its proposal for the ISR, after the broker has lost its records."""
        broker = self.world.brokers[broker_id]
        rate = 0.3 if isinstance(message, AlterPartition) else 0.02
        if self.world.now_ms > FAULTS_MS or self.random.random() > rate or not self._may_die(broker):
            return False
        self.world.after(CRASH_DELAY_MS - 1, lambda: self._crash(broker, delay_max_ms=20))
        return True

    def _delete(self) -> None:
        self._target().delete_records(self.random.random())

    def _reassign(self) -> None:
        partition = self.world.controller.image.partition
        unassigned = [one for one in self.world.brokers if one not in partition.replicas]
        if not unassigned or self.world.controller.target is not None:
            return
        leaving = self.random.choice(partition.replicas)
        target = tuple(unassigned[0] if one == leaving else one for one in partition.replicas)
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
