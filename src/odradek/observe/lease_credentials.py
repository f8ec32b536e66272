"""The principals that may acquire leases, from a file: one line per principal, with its secret and its topics.

# principal  secret            topics
spark        0c2f5f71a1b84f3e  orders,payments-*
"""

from dataclasses import dataclass
from typing import Final

SECRET_CHARACTERS_MIN: Final = 16
FILE_BYTES_MAX: Final = 1 << 20


class WrongCredentials(ValueError):
    """The file is invalid; the message names the line and never contains a secret."""


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
        """None: the principal is unknown, or the secret is wrong."""
        # Imported on demand, to keep the start of a node short.
        import hmac

        principal = self._principals.get(name)
        expected = secret if principal is None else principal.secret
        # Compared in either case: the duration must not reveal whether the name is known.
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
            raise WrongCredentials(
                f"line {number}: expected a principal, its secret and its topics, with spaces between"
            )
        name, secret, topics = words
        if len(secret) < SECRET_CHARACTERS_MIN:
            raise WrongCredentials(f"line {number}: a secret needs at least {SECRET_CHARACTERS_MIN} characters")
        if ":" in name or name in principals:
            raise WrongCredentials(f"line {number}: {name!r} contains a colon or is a duplicate")
        principals[name] = Principal(name, secret, tuple(topics.split(",")))
    return Credentials(principals)
