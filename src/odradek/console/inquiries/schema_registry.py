"""Schemas, asked of a registry over HTTP as Confluent's and others answer, and kept: an id never means another."""

import base64
import threading
import time
from collections import OrderedDict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, unquote

from odradek.console.outward import NoAnswer, address_of, ask_json
from odradek.console.readings.by_schema import Decode, Reference, Schema, Undecodable, decoder_of

SCHEMAS_MAX: Final = 500
_REFERENCES_MAX: Final = 50
# A registry that did not answer is asked again after a while.
_FORGIVEN_S: Final = 10.0


class NoRegistry(ValueError):
    """The message says what is wrong with its address."""


@dataclass(frozen=True, slots=True)
class _Refusal:
    why: str
    until_s: float

    def __call__(self, payload: bytes) -> Any:
        raise Undecodable(self.why)


class SchemaRegistry:
    """`address`: http or https, with `user:password@` where the registry wants it."""

    def __init__(self, address: str) -> None:
        try:
            parts = address_of(address)
        except ValueError as error:
            raise NoRegistry(str(error)) from None
        host = f"[{parts.hostname}]" if ":" in str(parts.hostname) else parts.hostname
        port = f":{parts.port}" if parts.port else ""
        self._base: Final = f"{parts.scheme}://{host}{port}{parts.path.rstrip('/')}"
        self._headers: Final = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        if parts.username is not None:
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            self._headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        self._decoders: OrderedDict[int, Decode] = OrderedDict()
        self._lock: Final = threading.Lock()

    def decoders(self, ids: Collection[int]) -> Mapping[int, Decode]:
        """Of these schemas, asked for where they are not known yet. Blocks. Never raises: decoders do."""
        with self._lock:
            for schema_id in ids:
                known = self._decoders.get(schema_id)
                if known is None or (isinstance(known, _Refusal) and known.until_s < time.monotonic()):
                    self._decoders[schema_id] = self._ask_for(schema_id)
                self._decoders.move_to_end(schema_id)
            while len(self._decoders) > max(SCHEMAS_MAX, len(ids)):
                self._decoders.popitem(last=False)
            return {schema_id: self._decoders[schema_id] for schema_id in ids}

    def _ask_for(self, schema_id: int) -> Decode:
        try:
            told = self._get(f"/schemas/ids/{schema_id}")
            kind = str(told.get("schemaType", "AVRO"))
            if kind == "PROTOBUF":
                told = self._get(f"/schemas/ids/{schema_id}?format=serialized")
            references: dict[str, Reference] = {}
            self._follow(told.get("references") or [], kind, references)
            return decoder_of(Schema(type=kind, text=str(told["schema"]), references=tuple(references.values())))
        except Undecodable as error:
            return _Refusal(f"schema {schema_id}: {error}", time.monotonic() + _FORGIVEN_S)
        except (KeyError, TypeError, AttributeError) as error:
            why = f"schema {schema_id}: the registry's answer is not understood ({error!r})"
            return _Refusal(why, time.monotonic() + _FORGIVEN_S)

    def _follow(self, named: list[Any], kind: str, found: dict[str, Reference], depth: int = 0) -> None:
        """Depth first: what a schema names has to be known before it."""
        for one in named:
            name = str(one["name"])
            if name in found:
                continue
            if len(found) >= _REFERENCES_MAX or depth > _REFERENCES_MAX:
                raise Undecodable(f"it names more than {_REFERENCES_MAX} other schemas")
            form = "?format=serialized" if kind == "PROTOBUF" else ""
            where = f"/subjects/{quote(str(one['subject']), safe='')}/versions/{int(one['version'])}{form}"
            told = self._get(where)
            self._follow(told.get("references") or [], kind, found, depth + 1)
            found[name] = Reference(name=name, text=str(told["schema"]))

    def _get(self, path: str) -> dict[str, Any]:
        try:
            return ask_json(self._base + path, headers=self._headers)
        except NoAnswer as error:
            raise Undecodable(f"the registry: {error}") from None
