"""How fast clients may connect: to the node, to a listener, and from an address (`connection_creation_rate`)."""

from collections.abc import Mapping
from typing import Final

from odradek.core.quotas.rates import RateWindows
from odradek.core.quotas.sensors import EXPIRE_MS, SENSORS_MAX

UNLIMITED: Final = 2**31 - 1


class ConnectionRates:
    """A delay is one window at most, so that a new limit soon takes effect."""

    def __init__(self, window_count: int, window_ms: int, *, privileged_listener: str | None = None) -> None:
        self._window_count: Final = window_count
        self._window_ms: Final = window_ms
        # Its connections do not count for the node: the other brokers must get through.
        self._privileged_listener: Final = privileged_listener
        self._node_max = UNLIMITED
        self._listener_max: Mapping[str, int] = {}
        self._address_max: Mapping[str, int] = {}
        self._other_address_max = UNLIMITED
        self._of_node: RateWindows | None = None
        self._of_listeners: Final[dict[str, RateWindows]] = {}
        self._of_addresses: Final[dict[str, RateWindows]] = {}
        self.is_limited = False
        """Whether there is any limit: nothing is measured without."""

    def change(self, *, node_max: int, listener_max: Mapping[str, int]) -> None:
        self._node_max = node_max
        self._listener_max = dict(listener_max)
        self._set_is_limited()

    def change_addresses(self, address_max: Mapping[str, int], other_max: int) -> None:
        """By address, and of each other address."""
        self._address_max = dict(address_max)
        self._other_address_max = other_max
        self._set_is_limited()

    def count(self, listener: str, now_ms: int) -> int:
        """Returns the milliseconds by which the listener must delay this connection, and those after it."""
        delay_ms = 0
        if listener != self._privileged_listener:
            self._of_node = self._of_node or self._new_windows(now_ms)
            delay_ms = self._record(self._of_node, self._node_max, now_ms)
        of_listener = self._of_listeners.get(listener)
        if of_listener is None:
            of_listener = self._of_listeners[listener] = self._new_windows(now_ms)
        return max(delay_ms, self._record(of_listener, self._listener_max.get(listener, UNLIMITED), now_ms))

    def count_address(self, listener: str, address: str, now_ms: int) -> int:
        """Returns the milliseconds after which the connection must be closed; it does not count then. 0: admit it."""
        limit = self._address_max.get(address, self._other_address_max)
        if limit == UNLIMITED:
            return 0
        windows = self._of_addresses.get(address)
        if windows is None:
            self._make_room(now_ms)
            windows = self._of_addresses[address] = self._new_windows(now_ms)
        delay_ms = self._record(windows, limit, now_ms)
        if delay_ms:
            windows.record(-1, now_ms)
            if self._of_node is not None and listener != self._privileged_listener:
                self._of_node.record(-1, now_ms)
            if listener in self._of_listeners:
                self._of_listeners[listener].record(-1, now_ms)
        return delay_ms

    def _record(self, windows: RateWindows, limit: int, now_ms: int) -> int:
        windows.record(1, now_ms)
        return min(windows.delay_ms(limit, now_ms), self._window_ms)

    def _new_windows(self, now_ms: int) -> RateWindows:
        return RateWindows(self._window_count, self._window_ms, now_ms)

    def _make_room(self, now_ms: int) -> None:
        addresses = self._of_addresses
        if len(addresses) < SENSORS_MAX:
            return
        by_age = sorted(addresses, key=lambda address: addresses[address].last_event_ms)
        expired = [one for one in by_age if now_ms - addresses[one].last_event_ms >= EXPIRE_MS]
        for address in expired or by_age[: SENSORS_MAX // 10]:
            del addresses[address]

    def _set_is_limited(self) -> None:
        limits = (self._node_max, self._other_address_max, *self._listener_max.values(), *self._address_max.values())
        self.is_limited = min(limits) < UNLIMITED
