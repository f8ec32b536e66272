"""Counts of authentications on one listener."""


class AuthenticationCounts:
    __slots__ = (
        "expired_connections",
        "failed",
        "failed_reauthentications",
        "successful",
        "successful_reauthentications",
    )

    def __init__(self) -> None:
        self.successful = 0
        self.failed = 0
        self.successful_reauthentications = 0
        self.failed_reauthentications = 0
        self.expired_connections = 0
        """Closed because the session had expired and the client sent a request instead of authenticating again."""
