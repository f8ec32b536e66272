"""JSON from servers that somebody named: bounded in time and size, and from nobody else, as no redirection is followed.

Blocks.
"""

import http.client
import json
import time
from collections.abc import Mapping
from contextlib import closing
from typing import Any, Final
from urllib.parse import SplitResult, urlencode, urlsplit

ANSWER_S: Final = 3.0
ANSWER_BYTES_MAX: Final = 1024 * 1024


class NoAnswer(Exception):
    """The message says who did not answer as it should, and how. `told`: what came with a status that is an error's."""

    def __init__(self, message: str, *, status: int | None = None, told: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.status: Final = status
        self.told: Final = told or {}


def address_of(url: str) -> SplitResult:
    """Raises ValueError with a sentence for the person who wrote it."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("write http://HOST:PORT or https://HOST:PORT")
    try:
        _ = parts.port
    except ValueError:
        raise ValueError("its port is none between 1 and 65535") from None
    return parts


def ask_json(
    url: str, *, headers: Mapping[str, str] | None = None, form: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """GET, or POST where there is a form. Raises NoAnswer."""
    parts = address_of(url)
    connect = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    sent = {"Accept": "application/json", **(headers or {})}
    body = None
    if form is not None:
        body = urlencode(form)
        sent["Content-Type"] = "application/x-www-form-urlencoded"
    try:
        with closing(connect(str(parts.hostname), parts.port, timeout=ANSWER_S)) as connection:
            connection.request("GET" if form is None else "POST", path, body=body, headers=sent)
            response = connection.getresponse()
            answer = _read(response, time.monotonic() + ANSWER_S)
    except (OSError, http.client.HTTPException) as error:
        raise NoAnswer(f"{parts.hostname} does not answer ({error})") from None
    told = _object(answer)
    if response.status != http.client.OK or len(answer) > ANSWER_BYTES_MAX:
        raise NoAnswer(f"{parts.hostname} answers {response.status}", status=response.status, told=told)
    if told is None:
        raise NoAnswer(f"{parts.hostname} answers with what is no JSON object")
    return told


def _read(response: http.client.HTTPResponse, until_s: float) -> bytes:
    """One byte more than is allowed where there are more. Who sends byte by byte is not waited for."""
    answer = b""
    while len(answer) <= ANSWER_BYTES_MAX:
        part = response.read1(ANSWER_BYTES_MAX + 1 - len(answer))
        if not part:
            break
        answer += part
        if time.monotonic() > until_s:
            raise TimeoutError("it takes too long")
    return answer


def _object(answer: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(answer)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
