"""Client-side errors. Error codes that the cluster returns are KafkaError."""

from collections.abc import Sequence
from typing import Final

from odradek.base.errors import ErrorCode
from odradek.client.address import Address


class ClientError(Exception):
    """Base class. The message is one line for the user, without a final full stop."""


CLOSED_BY_BROKER: Final = "the broker closed the connection"


class ConnectionFailed(ClientError):
    """One broker was unreachable, closed the connection, or does not speak the Kafka protocol. Another may work."""

    def __init__(self, address: Address, reason: str) -> None:
        super().__init__(f"{address}: {reason}")
        self.address = address
        self.reason = reason


class Unreachable(ClientError):
    """No broker could be reached at any of the addresses."""

    def __init__(self, failures: Sequence[ConnectionFailed]) -> None:
        super().__init__("Cannot connect to any broker (" + "; ".join(dict.fromkeys(map(str, failures))) + ")")
        self.failures = tuple(failures)


class NotAuthenticated(ClientError):
    """The client or the broker could not be authenticated: retrying does not help."""

    def __init__(self, address: Address, reason: str) -> None:
        super().__init__(f"Cannot authenticate with {address}: {reason}")


class NotSupportedByBroker(ClientError):
    def __init__(self, address: Address, what: str) -> None:
        super().__init__(f"The broker at {address} does not support {what}")


class NotYet(ClientError):
    """The cluster has not reached the expected state yet: retry."""


class TimedOut(ClientError):
    """The deadline passed while the cluster returned retriable errors.

    `reason` describes the last one, and `code` is its error code if it had one.
    """

    def __init__(self, what: str, timeout_s: float, reason: str | None, code: ErrorCode | None = None) -> None:
        action = what[:1].upper() + what[1:]
        super().__init__(f"{action} timed out after {timeout_s:g} s" + (f" ({reason})" if reason else ""))
        self.reason = reason
        self.code = code


class UnknownTopic(ClientError):
    def __init__(self, topic: str, known: Sequence[str] = ()) -> None:
        super().__init__(f"Topic {topic!r} does not exist")
        self.topic = topic
        self.known = tuple(known)
        """The existing topics, for suggestions."""


class UnknownPartition(ClientError):
    def __init__(self, topic: str, partition: int, count: int) -> None:
        super().__init__(f"Topic {topic!r} has no partition {partition}, only partitions 0 to {count - 1}")
