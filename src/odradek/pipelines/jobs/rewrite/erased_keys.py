"""The keys that a rewrite leaves out: read from a file, looked for in columns, never written down anywhere."""

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
    """How a file writes keys, one on each line."""

    TEXT = "text"
    HEX = "hex"
    BASE64 = "base64"


@dataclass(frozen=True)
class ErasedKeys:
    """Not to be shown: keys may be what people wanted to be forgotten."""

    keys: tuple[bytes, ...] = field(repr=False)

    @classmethod
    def of(cls, keys: Iterable[bytes]) -> "ErasedKeys":
        return cls(tuple(sorted(set(keys))))

    @property
    def digest(self) -> str:
        """By which a later run tells that it was given the same ones."""
        whole = hashlib.sha256()
        for key in self.keys:
            whole.update(len(key).to_bytes(8, "big"))
            whole.update(key)
        return whole.hexdigest()

    def among(self, column: Any) -> Any:
        """For each row whether its key is one of them; a record without a key has none."""
        return pc.is_in(column.cast(pa.binary()), value_set=self._values)

    @cached_property
    def _values(self) -> Any:
        return pa.array(self.keys, pa.binary())

    def __getstate__(self) -> dict[str, Any]:
        """Travels to tasks without what they can make themselves."""
        return {"keys": self.keys}


def read_erased_keys(file: Path, form: KeyText) -> ErasedKeys:
    """Raises UserError. Lines that are empty are passed over."""
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
            # Not the line itself: it may be what is to be forgotten.
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
