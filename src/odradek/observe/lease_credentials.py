"""Who may ask for leases, as a file says: one principal in a line, its secret, and the topics that it may read.

# principal  secret            topics
spark        0c2f5f71a1b84f3e  orders,payments-*
"""

from dataclasses import dataclass
from typing import Final

SECRET_CHARACTERS_MIN: Final = 16
FILE_BYTES_MAX: Final = 1 << 20


class WrongCredentials(ValueError):
    """The file cannot be used; the message says where, and never what a secret is."""


@dataclass(frozen=True, slots=True, repr=False)
class Principal:
    name: str
    secret: str
    topics: tuple[str, ...]

    def may_read(self, topic: str) -> bool:
        return any(topic.startswith(one[:-1]) if one.endswith("*") else topic == one for one in self.topics)


class Credentials:
    def __init__(self, principals: dict[str, Principal]) -> None:
        self._principals: Final = principals

    def find(self, name: str, secret: str) -> Principal | None:
        """None: there is no such principal, or that is not its secret."""
        # With what it imports, not for nodes that nobody asks.
        import hmac

        principal = self._principals.get(name)
        expected = secret if principal is None else principal.secret
        # Compared either way: how long it takes does not tell whether the name is known.
        matches = hmac.compare_digest(expected.encode(), secret.encode())
        return principal if matches else None


def parse_credentials(text: str) -> Credentials:
    """Raises WrongCredentials."""
    principals: dict[str, Principal] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) != 3:
            raise WrongCredentials(f"line {number}: write a principal, its secret and its topics, with spaces between")
        name, secret, topics = words
        if len(secret) < SECRET_CHARACTERS_MIN:
            raise WrongCredentials(f"line {number}: a secret has at least {SECRET_CHARACTERS_MIN} characters")
        if ":" in name or name in principals:
            raise WrongCredentials(f"line {number}: {name!r} has a colon, or stands there twice")
        principals[name] = Principal(name, secret, tuple(topics.split(",")))
    return Credentials(principals)
