"""Files of key stores. Imports nothing that parses them, which is slow to import."""

from pathlib import Path
from typing import Final

from odradek.host.key_stores.store import KeyStoreError

FILE_BYTES_MAX: Final = 16 << 20


def read_file(path: str) -> bytes:
    """Raises KeyStoreError."""
    try:
        with Path(path).open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise KeyStoreError(f"cannot read {path}: {error.strerror or error}") from None
    if len(data) > FILE_BYTES_MAX:
        raise KeyStoreError(f"{path} is too large for a key store")
    return data


def is_pem(data: bytes) -> bool:
    return b"-----BEGIN " in data
