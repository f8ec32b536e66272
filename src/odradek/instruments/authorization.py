"""Counts of the checks of one authorizer."""


class AuthorizationCounts:
    __slots__ = ("allowed", "denied")

    def __init__(self) -> None:
        self.allowed = 0
        self.denied = 0

    @property
    def requests(self) -> int:
        return self.allowed + self.denied
