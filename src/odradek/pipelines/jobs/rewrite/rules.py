"""The rules of a rewrite: new keys, deduplication within a window, and erased keys.

The result does not depend on batches, so that an audit can reproduce it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from odradek.pipelines.jobs.rewrite.erased_keys import ErasedKeys
from odradek.text.errors import UserError

# Characters with a meaning in JSON paths. Only the dot is allowed.
_NOT_FIELDS: Final = set("`$[]*'\"\\")


class Keyless(StrEnum):
    """How to handle records whose new key is null."""

    REFUSE = "refuse"
    KEEP = "keep"
    DROP = "drop"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    key: str | None = None
    """A Spark SQL expression. None: keep the keys."""
    key_field: str | None = None
    """Alternatively, a field of JSON values, with dots for nested objects."""
    keyless: Keyless = Keyless.REFUSE
    window_ms: int | None = None
    """Drop a record if an equal one precedes it in its partition within this time."""
    same_by: str | None = None
    """A Spark SQL expression that identifies equal records. None: key and value."""
    erased: ErasedKeys | None = None
    """Erased keys of the source."""

    @property
    def changes_keys(self) -> bool:
        return self.key is not None or self.key_field is not None

    def check(self) -> "Rules":
        """Check what does not need Spark. Raises UserError."""
        if self.key is not None and self.key_field is not None:
            raise UserError("--key and --key-field are mutually exclusive. Choose one.")
        for name, text in (("--key", self.key), ("--key-field", self.key_field), ("--same-by", self.same_by)):
            if text is not None and not text.strip():
                raise UserError(f"{name} is empty. Remove it, or set a value.")
        if self.key_field is not None and (_NOT_FIELDS & set(self.key_field) or not all(self.key_field.split("."))):
            raise UserError(f"--key-field {self.key_field!r} is not a valid field name. Use name or outer.inner.")
        if self.same_by is not None and self.window_ms is None:
            raise UserError("--same-by requires --deduplicate with a duration such as PT10M.")
        if self.window_ms is not None and self.window_ms <= 0:
            raise UserError("--deduplicate requires a positive duration such as PT10M.")
        if self.keyless is not Keyless.REFUSE and not self.changes_keys:
            raise UserError("--keyless requires --key or --key-field.")
        return self

    def to_identity(self) -> dict[str, str]:
        """Return the form in the job's state. Erased keys are never stored, only their digest."""
        return {
            "key": self.key or "",
            "key_field": self.key_field or "",
            "keyless": str(self.keyless),
            "window_ms": "" if self.window_ms is None else str(self.window_ms),
            "same_by": self.same_by or "",
            "erased": "" if self.erased is None else self.erased.digest,
        }

    @classmethod
    def from_identity(cls, found: Mapping[str, str], erased: ErasedKeys | None) -> "Rules":
        """Raises UserError if the erased keys differ from the job's."""
        rules = cls(
            key=found["key"] or None,
            key_field=found["key_field"] or None,
            keyless=Keyless(found["keyless"]),
            window_ms=int(found["window_ms"]) if found["window_ms"] else None,
            same_by=found["same_by"] or None,
            erased=erased,
        )
        if rules.to_identity()["erased"] != found["erased"]:
            raise UserError(
                "The job erases other keys. Use the same file for --without-keys."
                if found["erased"]
                else "The job erases no keys. Remove --without-keys."
            )
        return rules
