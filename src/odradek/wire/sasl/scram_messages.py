"""The messages of a SCRAM client, as Kafka's servers accept them: ASCII, no channel binding."""

import base64
import re
from typing import Final, NamedTuple

from odradek.wire.sasl.exchange import SaslError

MESSAGE_BYTES_MAX: Final = 4096
"""Matching a longer message would keep an event loop busy for milliseconds."""
_VALUE: Final = r"[\x01-\x2b\x2d-\x7f]+"
_SASL_NAME: Final = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_PRINTABLE: Final = r"[\x21-\x2b\x2d-\x7e]+"
_BASE64: Final = r"(?:[a-zA-Z0-9/+]{4})*(?:[a-zA-Z0-9/+]{3}=|[a-zA-Z0-9/+]{2}==)?"
_EXTENSIONS: Final = rf"(?:,[A-Za-z]+={_VALUE})*"
_FIRST: Final = re.compile(
    rf"(?P<header>n,(?:a=(?P<authorization_id>{_SASL_NAME}))?,)"
    rf"(?P<bare>n=(?P<name>{_SASL_NAME}),r=(?P<nonce>{_PRINTABLE})(?P<extensions>{_EXTENSIONS}))",
    re.DOTALL,
)
_FINAL: Final = re.compile(
    rf"(?P<bare>c=(?P<binding>{_BASE64}),r=(?P<nonce>{_PRINTABLE}){_EXTENSIONS}),p=(?P<proof>{_BASE64})", re.DOTALL
)


class ClientFirst(NamedTuple):
    header: str
    bare: str
    """What both sides sign."""
    authorization_id: str
    username: str
    nonce: str
    is_token: bool
    """Whether the username is the ID of a delegation token."""


class ClientFinal(NamedTuple):
    bare: str
    binding: bytes
    nonce: str
    proof: bytes


def parse_client_first(message: bytes) -> ClientFirst:
    """Raises SaslError."""
    found = _FIRST.fullmatch(message.decode(errors="replace")) if len(message) <= MESSAGE_BYTES_MAX else None
    if found is None:
        raise SaslError("invalid first SCRAM message")
    extensions = dict(part.split("=", 1) for part in found["extensions"].split(",")[1:])
    return ClientFirst(
        header=found["header"],
        bare=found["bare"],
        authorization_id=found["authorization_id"] or "",
        username=_unescape(found["name"]),
        nonce=found["nonce"],
        is_token=extensions.get("tokenauth", "").lower() == "true",
    )


def parse_client_final(message: bytes) -> ClientFinal:
    """Raises SaslError."""
    found = _FINAL.fullmatch(message.decode(errors="replace")) if len(message) <= MESSAGE_BYTES_MAX else None
    if found is None:
        raise SaslError("invalid final SCRAM message")
    return ClientFinal(
        found["bare"], base64.b64decode(found["binding"]), found["nonce"], base64.b64decode(found["proof"])
    )


def _unescape(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")
