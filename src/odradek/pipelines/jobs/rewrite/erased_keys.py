"""The keys that a rewrite erases. They are read from a file and never stored or logged."""

import base64
import binascii
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from odradek.text.errors import UserError


class KeyText(StrEnum):
    """The encoding of keys in the file, one per line."""

    TEXT = "text"
    HEX = "hex"
    BASE64 = "base64"


@dataclass(frozen=True)
class ErasedKeys:
    """Never display the keys: they may be personal data."""

    keys: tuple[bytes, ...] = field(repr=False)

    @classmethod
    def of(cls, keys: Iterable[bytes]) -> "ErasedKeys":
        return cls(tuple(sorted(set(keys))))

    @property
    def digest(self) -> str:
        """Identifies the set of keys in later runs."""
        whole = hashlib.sha256()
        for key in self.keys:
            whole.update(len(key).to_bytes(8, "big"))
            whole.update(key)
        return whole.hexdigest()

    def among(self, column: Any) -> Any:
        """Return for each row whether its key is erased."""
        return pc.is_in(column.cast(pa.binary()), value_set=self._values)

    @cached_property
    def _values(self) -> Any:
        return pa.array(self.keys, pa.binary())

    def __getstate__(self) -> dict[str, Any]:
        """Do not pickle the cached Arrow array."""
        return {"keys": self.keys}


def read_erased_keys(file: Path, form: KeyText) -> ErasedKeys:
    """Raises UserError. Empty lines are ignored."""
    if not file.is_file():
        raise UserError(f"--without-keys: file {str(file)!r} does not exist. Choose a file with one key per line.")
    keys = []
    for number, line in enumerate(file.read_bytes().split(b"\n"), 1):
        line = line.removesuffix(b"\r")
        if not line:
            continue
        try:
            keys.append(_key(line, form))
        except (binascii.Error, ValueError):
            # Do not show the line: it may be personal data.
            raise UserError(f"--without-keys: line {number} of {str(file)!r} is not {form}. See --keys-as.") from None
    if not keys:
        raise UserError(f"--without-keys: {str(file)!r} contains no keys. Write one key per line.")
    return ErasedKeys.of(keys)


def _key(line: bytes, form: KeyText) -> bytes:
    match form:
        case KeyText.HEX:
            return binascii.unhexlify(line.strip())
        case KeyText.BASE64:
            return base64.b64decode(line.strip(), validate=True)
        case KeyText.TEXT:
            return line
