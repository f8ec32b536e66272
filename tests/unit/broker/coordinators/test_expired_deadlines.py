"""A context expires the deadlines of its shard until none is left."""

import asyncio
from pathlib import Path

import pytest

from tests.unit.broker.coordinators.tally import Broker, Read, Result, Tally, run


def test_expire_deadline_is_called_until_none_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expired: list[bool] = []
    of_machine = Tally.expire_deadline

    def counted(shard: Tally, now_ms: int) -> Result | None:
        result = of_machine(shard, now_ms)
        expired.append(result is not None)
        return result

    monkeypatch.setattr(Tally, "expire_deadline", counted)

    async def work() -> None:
        broker = Broker(tmp_path)
        broker.lead()
        broker.shard.alarms += [broker.clock.wall_ms() + 20] * 3
        broker.respond(Read("a"))
        while len(broker.shard.passed) < 3:
            await asyncio.sleep(0.005)
        assert expired.count(True) == 3
        # Once when all have passed, and once more where the clock was a moment behind its timer.
        assert expired.count(False) <= 2

    run(work())
