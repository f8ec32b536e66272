"""A host that wakes asks its machine for deadlines only until there are none."""

import asyncio
from pathlib import Path

import pytest

from tests.unit.broker.coordinators.tally import Ask, Broker, Step, Tally, run


def test_nobody_is_asked_for_deadlines_in_vain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []
    of_machine = Tally.pass_deadline

    def counted(machine: Tally, now_ms: int) -> Step | None:
        step = of_machine(machine, now_ms)
        asked.append(step is not None)
        return step

    monkeypatch.setattr(Tally, "pass_deadline", counted)

    async def work() -> None:
        broker = Broker(tmp_path)
        broker.lead()
        broker.machine.alarms += [broker.clock.wall_ms() + 20] * 3
        broker.ask(Ask("a"))
        while len(broker.machine.passed) < 3:
            await asyncio.sleep(0.005)
        assert asked.count(True) == 3
        # Once when all have passed, and once more where the clock was a moment behind its timer.
        assert asked.count(False) <= 2

    run(work())
