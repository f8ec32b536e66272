"""How far one follower has replicated, as its leader knows from the follower's Fetch requests."""

from dataclasses import dataclass
from math import inf
from typing import Final

UNKNOWN_OFFSET: Final = -1
NEVER: Final = -inf


@dataclass(slots=True, eq=False)
class FollowerProgress:
    broker_id: int
    last_caught_up: float
    """The latest known time at which the follower had everything that the leader had then."""
    end_offset: int = UNKNOWN_OFFSET
    log_start_offset: int = UNKNOWN_OFFSET
    broker_epoch: int | None = None
    """None: it has not fetched from this leader yet."""
    last_fetch: float = NEVER
    leader_end_at_last_fetch: int = UNKNOWN_OFFSET
    awaits_isr_expansion: bool = False
    """It could have joined the ISR if no other ISR change had been pending."""

    def on_fetch(
        self, broker_epoch: int, fetch_offset: int, log_start_offset: int, leader_end_offset: int, now: float
    ) -> None:
        if fetch_offset >= leader_end_offset:
            self.last_caught_up = max(self.last_caught_up, now)
        elif fetch_offset >= self.leader_end_at_last_fetch:
            # It has what the leader had at the previous fetch: under steady load no follower reaches the very end.
            self.last_caught_up = max(self.last_caught_up, self.last_fetch)
        self.leader_end_at_last_fetch = max(self.leader_end_at_last_fetch, leader_end_offset)
        self.last_fetch = now
        self.end_offset = fetch_offset
        self.log_start_offset = log_start_offset
        self.broker_epoch = broker_epoch

    def is_caught_up(self, leader_end_offset: int, now: float, lag_max_seconds: float) -> bool:
        return self.end_offset >= leader_end_offset or now < self.last_caught_up + lag_max_seconds
