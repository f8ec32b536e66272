"""Client of schema registries with Confluent's HTTP API. Blocking.

An unknown schema makes a record undecodable; an unavailable registry is temporary, so the two raise different errors.
Error messages never contain credentials.
"""

import base64
from typing import Any, Final
from urllib.parse import quote, unquote

from odradek.client.json_over_http import HttpRequestFailed, address_of, request_json
from odradek.pipelines.schemas.schema import AVRO, PROTOBUF, Reference, Schema, Undecodable

_REFERENCES_MAX: Final = 50
# Of schemas, subjects and versions.
_NOT_FOUND: Final = (40401, 40402, 40403)


class InvalidRegistryUrl(ValueError):
    """The registry's URL is invalid. The message states why."""


class RegistryUnavailable(Exception):
    """No response, or an invalid one: whether the schema exists is unknown. The message states why."""


class UnknownSchema(Undecodable):
    """The registry has no such schema."""


class RegistryClient:
    """`address` is an http or https URL, with `user:password@` if required."""

    def __init__(self, address: str) -> None:
        try:
            parts = address_of(address)
        except ValueError as error:
            raise InvalidRegistryUrl(str(error)) from None
        host = f"[{parts.hostname}]" if ":" in str(parts.hostname) else parts.hostname
        port = f":{parts.port}" if parts.port else ""
        self._base: Final = f"{parts.scheme}://{host}{port}{parts.path.rstrip('/')}"
        self._headers: Final = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        if parts.username is not None:
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            self._headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"

    def schema(self, schema_id: int) -> Schema:
        """Return the schema with its references.

        Raises RegistryUnavailable, UnknownSchema, and Undecodable if there are too many references or one is missing.
        """
        where = f"/schemas/ids/{schema_id}"
        try:
            response = self._get(where)
            kind = str(response.get("schemaType", AVRO))
            if kind == PROTOBUF:
                response = self._get(f"{where}?format=serialized")
            references: dict[str, Reference] = {}
            self._follow(response.get("references") or [], kind, references)
            return Schema(type=kind, text=_text(response, kind), references=tuple(references.values()))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise RegistryUnavailable(f"invalid response from the schema registry ({error!r})") from None

    def _follow(self, named: list[Any], kind: str, found: dict[str, Reference], depth: int = 0) -> None:
        """Depth first: referenced schemas come before the schemas that need them."""
        for one in named:
            name = str(one["name"])
            if name in found:
                continue
            if len(found) >= _REFERENCES_MAX or depth > _REFERENCES_MAX:
                raise Undecodable(f"references more than {_REFERENCES_MAX} other schemas")
            form = "?format=serialized" if kind == PROTOBUF else ""
            where = f"/subjects/{quote(str(one['subject']), safe='')}/versions/{int(one['version'])}{form}"
            try:
                response = self._get(where)
            except UnknownSchema:
                raise Undecodable(f"references {name!r}, which is not in the schema registry") from None
            self._follow(response.get("references") or [], kind, found, depth + 1)
            found[name] = Reference(name=name, text=_text(response, kind))

    def _get(self, path: str) -> dict[str, Any]:
        try:
            return request_json(self._base + path, headers=self._headers)
        except HttpRequestFailed as error:
            # A server that is not a registry returns 404 too.
            if error.status == 404 and error.body.get("error_code") in _NOT_FOUND:
                raise UnknownSchema("not found in the schema registry") from None
            raise RegistryUnavailable(f"schema registry request failed: {error}") from None


def _text(response: dict[str, Any], kind: str) -> str:
    text = str(response["schema"])
    if kind == PROTOBUF and "{" in text:
        raise RegistryUnavailable(
            "the schema registry does not support format=serialized, which reading Protobuf requires"
        )
    return text
