"""What a key store or a trust store contains, whatever its format."""

from dataclasses import dataclass, field


class KeyStoreError(Exception):
    """The store cannot be used. One line that never contains a password or a key."""


@dataclass(frozen=True, slots=True)
class KeyEntry:
    alias: str
    key: bytes = field(repr=False)
    """PKCS8 in DER form, not encrypted."""
    chain: tuple[bytes, ...]
    """Certificates in DER form; the key's own is the first."""


@dataclass(frozen=True, slots=True)
class Store:
    keys: tuple[KeyEntry, ...] = ()
    trusted: tuple[bytes, ...] = ()
    """Certificates in DER form."""

    @property
    def anchors(self) -> tuple[bytes, ...]:
        """What this trusts as a trust store: as in Java, also the certificates of its own keys."""
        return (*self.trusted, *(entry.chain[0] for entry in self.keys))
