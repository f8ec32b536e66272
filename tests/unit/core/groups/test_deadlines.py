"""Deadlines expire by time, then in the order of setting; only the last setting of a key counts."""

from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.core.groups.deadlines import Deadlines

results = st.lists(st.tuples(st.sampled_from("abc"), st.one_of(st.none(), st.integers(0, 20)), st.integers(0, 3)))


@settings(deadline=None)
@given(results)
def test_deadlines_expire_in_order(history: list[tuple[str, int | None, int]]) -> None:
    deadlines: Deadlines[str] = Deadlines()
    table: dict[str, int] = {}
    now_ms = 0
    for key, wait_ms, passed_ms in history:
        if wait_ms is None:
            deadlines.cancel(key)
            table.pop(key, None)
        else:
            deadlines.set(key, now_ms + wait_ms)
            table.pop(key, None)
            table[key] = now_ms + wait_ms
        now_ms += passed_ms
        due = sorted((key for key, at_ms in table.items() if at_ms <= now_ms), key=lambda one: table[one])
        popped = []
        while (popped_key := deadlines.pop_due(now_ms)) is not None:
            popped.append(popped_key)
        assert popped == due
        for key in due:
            del table[key]
        assert deadlines.next_at() == min(table.values(), default=None)


def test_renewed_deadline_leaves_no_entries_behind() -> None:
    deadlines: Deadlines[str] = Deadlines()
    for now_ms in range(10_000):
        deadlines.set("member", now_ms + 10_000)
        deadlines.next_at()
    assert len(deadlines._heap) == 1
