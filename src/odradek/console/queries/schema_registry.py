"""Caches decoders for the schemas of a registry; schema IDs are immutable."""

import threading
import time
from collections import OrderedDict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from odradek.pipelines.schemas.decoding import Decode, decoder_of
from odradek.pipelines.schemas.registry import RegistryClient, RegistryUnavailable
from odradek.pipelines.schemas.schema import Undecodable

SCHEMAS_MAX: Final = 500
# Delay before retrying an unresponsive registry.
_FORGIVEN_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class _Refusal:
    why: str
    until_s: float

    def __call__(self, payload: bytes) -> Any:
        raise Undecodable(self.why)


class SchemaRegistry:
    """Raises InvalidRegistryUrl for an invalid URL."""

    def __init__(self, address: str) -> None:
        self._client: Final = RegistryClient(address)
        self._decoders: OrderedDict[int, Decode] = OrderedDict()
        self._lock: Final = threading.Lock()

    def decoders(self, ids: Collection[int]) -> Mapping[int, Decode]:
        """Fetches unknown schemas. Blocks. Never raises: the returned decoders raise instead."""
        with self._lock:
            for schema_id in ids:
                known = self._decoders.get(schema_id)
                if known is None or (isinstance(known, _Refusal) and known.until_s < time.monotonic()):
                    self._decoders[schema_id] = self._fetch(schema_id)
                self._decoders.move_to_end(schema_id)
            while len(self._decoders) > max(SCHEMAS_MAX, len(ids)):
                self._decoders.popitem(last=False)
            return {schema_id: self._decoders[schema_id] for schema_id in ids}

    def _fetch(self, schema_id: int) -> Decode:
        try:
            return decoder_of(self._client.schema(schema_id))
        except (RegistryUnavailable, Undecodable) as error:
            return _Refusal(f"schema {schema_id}: {error}", time.monotonic() + _FORGIVEN_S)
