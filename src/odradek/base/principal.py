"""Who sent a request: the result of authentication, and what ACLs name."""

from typing import Final, NamedTuple

USER: Final = "User"


class Principal(NamedTuple):
    type: str
    name: str
    token_authenticated: bool = False
    """Whether a delegation token authenticated it."""

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


ANONYMOUS: Final = Principal(USER, "ANONYMOUS")
