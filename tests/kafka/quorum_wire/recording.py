"""Recordings as text: one file per API, for each exchange what it is, the request's bytes and the response's."""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from tests.kafka.quorum_wire.requests import NAMES

DIRECTORY = Path(__file__).parents[2] / "golden" / "quorum_wire"


class Recorded(NamedTuple):
    api_key: int
    version: int
    title: str
    request: bytes
    response: bytes


def write(recorded: Iterable[Recorded]) -> None:
    DIRECTORY.mkdir(exist_ok=True)
    by_api: dict[int, list[str]] = {}
    for one in sorted(recorded, key=lambda one: (one.api_key, one.version)):
        lines = by_api.setdefault(one.api_key, [])
        lines += [f"v{one.version}: {one.title}", f"  {one.request.hex()}", f"  {one.response.hex()}"]
    for api_key, lines in by_api.items():
        (DIRECTORY / f"{NAMES[api_key]}.txt").write_text("\n".join(lines) + "\n")


def read() -> list[Recorded]:
    recorded = []
    for api_key, name in NAMES.items():
        lines = (DIRECTORY / f"{name}.txt").read_text().splitlines()
        for heading, request, response in zip(lines[::3], lines[1::3], lines[2::3], strict=True):
            version, title = heading.removeprefix("v").split(": ", 1)
            recorded.append(Recorded(api_key, int(version), title, bytes.fromhex(request), bytes.fromhex(response)))
    return recorded
