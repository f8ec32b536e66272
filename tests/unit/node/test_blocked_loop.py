"""The event loop is blocked if it writes to one log dir and does not tick, for a long time."""

from odradek.node.blocked_loop import BLOCKED_SECONDS_MAX, TICK_SECONDS, BlockedLoop

LOOKS = round(BLOCKED_SECONDS_MAX / TICK_SECONDS)


class Watched:
    def __init__(self) -> None:
        self.ticks = 0
        self.log_dir: str | None = None

    def written_on_loop(self) -> str | None:
        return self.log_dir


def looks(loop: BlockedLoop, count: int) -> list[str]:
    return [found for found in (loop.look() for _ in range(count)) if found is not None]


def test_a_write_that_does_not_end_is_reported() -> None:
    watched = Watched()
    loop = BlockedLoop(watched, lambda _: None)
    watched.log_dir = "/d"
    loop.look()
    assert looks(loop, LOOKS - 1) == []
    assert looks(loop, 1) == ["/d"]


def test_a_loop_that_ticks_is_not_blocked() -> None:
    watched = Watched()
    loop = BlockedLoop(watched, lambda _: None)
    watched.log_dir = "/d"
    for _ in range(3):
        watched.ticks += 1
        assert looks(loop, LOOKS) == []


def test_a_loop_that_does_something_else_is_not_blocked_by_a_disk() -> None:
    watched = Watched()
    loop = BlockedLoop(watched, lambda _: None)
    assert looks(loop, 10 * LOOKS) == []
    watched.log_dir = "/d"
    assert looks(loop, LOOKS - 1) == []
    watched.log_dir = None
    loop.look()
    watched.log_dir = "/d"
    assert looks(loop, LOOKS - 1) == []
