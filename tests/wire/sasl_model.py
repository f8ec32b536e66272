"""What a stream of bytes before authentication proves, computed without the code of the node.

A client that the node serves must have proved a password, a token of delegation, or a signed token. The model reads the
frames as Kafka's protocol defines them, and is strict: whatever it cannot read proves nothing.
"""

import base64
import hashlib
import hmac
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import NamedTuple

HANDSHAKE, AUTHENTICATE = 17, 36
DIGESTS = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
_BYTES_MAX = 524_288
_SEPARATOR = b"\x01"


class Unreadable(Exception):
    """The bytes are not what the protocol requires."""


class Credentials(NamedTuple):
    """The only ones that the node accepts."""

    passwords: Mapping[str, str]
    """Of PLAIN."""
    scram_passwords: Mapping[str, str]
    delegation_tokens: Mapping[str, str]
    """By token ID: HMAC in base64."""
    signed_tokens: Sequence[str]


@cache
def salted_password(mechanism: str, password: str, salt: bytes, iterations: int) -> bytes:
    return hashlib.pbkdf2_hmac(DIGESTS[mechanism], password.encode(), salt, iterations)


def client_proof(mechanism: str, password: str, first_bare: str, challenge: str, final_bare: str) -> str:
    """The proof of a SCRAM client, in base64."""
    fields = fields_of(challenge)
    digest = DIGESTS[mechanism]
    salted = salted_password(mechanism, password, base64.b64decode(fields["s"]), int(fields["i"]))
    key = hmac.digest(salted, b"Client Key", digest)
    signed = f"{first_bare},{challenge},{final_bare}".encode()
    signature = hmac.digest(hashlib.new(digest, key).digest(), signed, digest)
    return base64.b64encode(bytes(one ^ other for one, other in zip(key, signature, strict=True))).decode()


def fields_of(message: str) -> dict[str, str]:
    return {part[0]: part[2:] for part in message.split(",") if part[1:2] == "="}


def proves_identity(sent: bytes, challenges: Sequence[bytes], credentials: Credentials) -> bool:
    """Whether the bytes that a client sent, after these challenges of the node, prove an identity."""
    mechanism, messages = "", list[bytes]()
    is_raw = False
    try:
        for frame in _frames(sent):
            if mechanism and is_raw:
                messages.append(frame)
                continue
            api_key, version, rest = _header(frame)
            if not mechanism and api_key == HANDSHAKE and version in (0, 1):
                mechanism, is_raw = _string(rest)[0], version == 0
            elif mechanism and api_key == AUTHENTICATE and version in (0, 1, 2):
                messages.append(_authentication_bytes(version, rest))
            elif mechanism:
                break
            if _prove(mechanism, messages, challenges, credentials):
                return True
    except Unreadable:
        return False
    return _prove(mechanism, messages, challenges, credentials)


def _prove(mechanism: str, messages: Sequence[bytes], challenges: Iterable[bytes], credentials: Credentials) -> bool:
    if mechanism == "PLAIN":
        return len(messages) >= 1 and _proves_password(messages[0], credentials)
    if mechanism == "OAUTHBEARER":
        return len(messages) >= 1 and _proves_token(messages[0], credentials)
    if mechanism in DIGESTS and len(messages) >= 2:
        first, final = messages[:2]
        return any(_proves_scram(mechanism, first, final, challenge, credentials) for challenge in challenges)
    return False


def _proves_password(message: bytes, credentials: Credentials) -> bool:
    parts = message.split(b"\0")
    return (
        len(parts) == 3
        and parts[0] in (b"", parts[1])
        and (parts[1], parts[2]) in {(name.encode(), text.encode()) for name, text in credentials.passwords.items()}
    )


def _proves_token(message: bytes, credentials: Credentials) -> bool:
    """Signatures in base64 have several forms: what follows the two signed parts may differ."""
    header, *pairs = message.split(_SEPARATOR)
    found = [pair[5:].strip() for pair in pairs if pair.startswith(b"auth=")]
    if not header.startswith(b"n,") or not found or found[-1][:6].lower() != b"bearer":
        return False
    signed, _, signature = found[-1][6:].strip().rpartition(b".")
    return any(
        signed == one.rpartition(".")[0].encode() and _decode(signature) == _decode(one.rpartition(".")[2].encode())
        for one in credentials.signed_tokens
    )


def _decode(part: bytes) -> bytes:
    try:
        return base64.urlsafe_b64decode(part + b"=" * (-len(part) % 4))
    except ValueError:
        return b"invalid"


def _proves_scram(mechanism: str, first: bytes, final: bytes, challenge: bytes, credentials: Credentials) -> bool:
    try:
        header, authorization_id, bare = first.decode().split(",", 2)
        fields = fields_of(bare)
        final_bare, _, proof = final.decode().rpartition(",p=")
        server, ours = fields_of(challenge.decode()), fields_of(final_bare)
    except (UnicodeDecodeError, ValueError):
        return False
    name = fields.get("n", "").replace("=2C", ",").replace("=3D", "=")
    is_token = ",tokenauth=true" in bare.lower()
    secret = (credentials.delegation_tokens if is_token else credentials.scram_passwords).get(name)
    if secret is None or header != "n" or authorization_id.removeprefix("a=") not in ("", fields.get("n")):
        return False
    nonce = server.get("r", "")
    binding = base64.b64encode(f"{header},{authorization_id},".encode()).decode()
    return (
        nonce.startswith(fields.get("r", " "))
        and len(nonce) > len(fields["r"])
        and (ours.get("r"), ours.get("c")) == (nonce, binding)
        and _decode_standard(proof)
        == _decode_standard(client_proof(mechanism, secret, bare, challenge.decode(), final_bare))
    )


def _decode_standard(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        return b"invalid"


def _frames(sent: bytes) -> Iterator[bytes]:
    """Up to the first that is incomplete or too large."""
    position = 0
    while len(sent) - position >= 4:
        (size,) = struct.unpack_from(">i", sent, position)
        if not 0 <= size <= min(_BYTES_MAX, len(sent) - position - 4):
            return
        yield sent[position + 4 : position + 4 + size]
        position += 4 + size


def _header(frame: bytes) -> tuple[int, int, bytes]:
    """API key, version, and what follows the client ID."""
    if len(frame) < 10:
        raise Unreadable
    api_key, version, _, size = struct.unpack_from(">hhih", frame)
    if 10 + size > len(frame):
        raise Unreadable
    return api_key, version, frame[10 + max(size, 0) :]


def _string(data: bytes) -> tuple[str, bytes]:
    if len(data) < 2 or not 0 <= (size := int.from_bytes(data[:2], "big", signed=True)) <= len(data) - 2:
        raise Unreadable
    return data[2 : 2 + size].decode(errors="replace"), data[2 + size :]


def _authentication_bytes(version: int, rest: bytes) -> bytes:
    if version < 2:
        if len(rest) < 4 or not 0 <= (size := int.from_bytes(rest[:4], "big", signed=True)) <= len(rest) - 4:
            raise Unreadable
        return rest[4 : 4 + size]
    rest = _after_tagged_fields(rest)
    size, rest = _varint(rest)
    if not 0 < size <= len(rest) + 1:
        raise Unreadable
    _after_tagged_fields(rest[size - 1 :])
    return rest[: size - 1]


def _after_tagged_fields(data: bytes) -> bytes:
    count, data = _varint(data)
    if count > len(data):
        raise Unreadable
    for _ in range(count):
        _, data = _varint(data)
        size, data = _varint(data)
        if size > len(data):
            raise Unreadable
        data = data[size:]
    return data


def _varint(data: bytes) -> tuple[int, bytes]:
    value = 0
    for place, byte in enumerate(data[:5]):
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return value, data[place + 1 :]
    raise Unreadable
