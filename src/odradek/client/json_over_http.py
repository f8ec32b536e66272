"""Requests JSON over HTTP, bounded in time and size. Redirects are not followed, so only the given server is contacted.

All calls block.
"""

import http.client
import json
import time
from collections.abc import Mapping
from contextlib import closing
from typing import Any, Final
from urllib.parse import SplitResult, urlencode, urlsplit

TIMEOUT_S: Final = 3.0
RESPONSE_BYTES_MAX: Final = 1024 * 1024


class HttpRequestFailed(Exception):
    """The server is unreachable or returned an error. `body` is the JSON body of an error response."""

    def __init__(self, message: str, *, status: int | None = None, body: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.status: Final = status
        self.body: Final = body or {}


def address_of(url: str) -> SplitResult:
    """Parse the URL of a server. Raises ValueError with a message for the user."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("not a valid URL. Write http://HOST:PORT or https://HOST:PORT")
    try:
        _ = parts.port
    except ValueError:
        raise ValueError("not a valid port. Use a port between 1 and 65535") from None
    return parts


def request_json(
    url: str, *, headers: Mapping[str, str] | None = None, form: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Send a GET request, or a POST request with a form. Raises HttpRequestFailed."""
    parts = address_of(url)
    connect = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    sent = {"Accept": "application/json", **(headers or {})}
    body = None
    if form is not None:
        body = urlencode(form)
        sent["Content-Type"] = "application/x-www-form-urlencoded"
    try:
        with closing(connect(str(parts.hostname), parts.port, timeout=TIMEOUT_S)) as connection:
            connection.request("GET" if form is None else "POST", path, body=body, headers=sent)
            response = connection.getresponse()
            content = _read(response, time.monotonic() + TIMEOUT_S)
    except (OSError, http.client.HTTPException) as error:
        raise HttpRequestFailed(f"{parts.hostname} does not respond ({error})") from None
    found = _parse_object(content)
    if response.status != http.client.OK or len(content) > RESPONSE_BYTES_MAX:
        raise HttpRequestFailed(f"{parts.hostname} returned HTTP {response.status}", status=response.status, body=found)
    if found is None:
        raise HttpRequestFailed(f"{parts.hostname} did not return a JSON object")
    return found


def _read(response: http.client.HTTPResponse, until_s: float) -> bytes:
    """Read the body, up to one byte more than allowed. A server that sends byte by byte times out."""
    content = b""
    while len(content) <= RESPONSE_BYTES_MAX:
        part = response.read1(RESPONSE_BYTES_MAX + 1 - len(content))
        if not part:
            break
        content += part
        if time.monotonic() > until_s:
            raise TimeoutError("timed out")
    return content


def _parse_object(content: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
