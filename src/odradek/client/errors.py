"""What can go wrong between a client and a cluster, apart from the error codes of the cluster itself (KafkaError)."""

from collections.abc import Sequence

from odradek.base.errors import ErrorCode
from odradek.client.address import Address


class ClientError(Exception):
    """The base of them all: the message is one line for a person."""


class ConnectionFailed(ClientError):
    """One broker could not be reached, hung up, or did not speak Kafka's protocol. Another one may do better."""

    def __init__(self, address: Address, reason: str) -> None:
        super().__init__(f"{address}: {reason}")
        self.address = address
        self.reason = reason


class Unreachable(ClientError):
    """None of the addresses answered."""

    def __init__(self, failures: Sequence[ConnectionFailed]) -> None:
        super().__init__("no broker answered (" + "; ".join(dict.fromkeys(map(str, failures))) + ")")
        self.failures = tuple(failures)


class NotAuthenticated(ClientError):
    """The broker does not know who this is, or is not who it says: asking again does not help."""

    def __init__(self, address: Address, reason: str) -> None:
        super().__init__(f"{address}: {reason}")


class NotSupportedByBroker(ClientError):
    def __init__(self, address: Address, what: str) -> None:
        super().__init__(f"the broker at {address} does not serve {what}")


class NotYet(ClientError):
    """The cluster answers, but is not yet as it is going to be: asking again is all there is to do."""


class TimedOut(ClientError):
    """The deadline passed while the cluster kept asking to try again; `reason` is what it said last, `code` its error
    code if it had one.
    """

    def __init__(self, what: str, timeout_s: float, reason: str | None, code: ErrorCode | None = None) -> None:
        super().__init__(f"{what} did not succeed within {timeout_s:g} s" + (f" ({reason})" if reason else ""))
        self.reason = reason
        self.code = code


class UnknownTopic(ClientError):
    def __init__(self, topic: str, known: Sequence[str] = ()) -> None:
        super().__init__(f"there is no topic {topic!r}")
        self.topic = topic
        self.known = tuple(known)
        """The topics that there are: what the caller may have meant is among them."""


class UnknownPartition(ClientError):
    def __init__(self, topic: str, partition: int, count: int) -> None:
        super().__init__(f"topic {topic!r} has no partition {partition}: it has {count}, from 0 to {count - 1}")
