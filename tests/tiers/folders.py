"""The folders of tests: the earliest tier that runs their tests, and whether a failure there can be one of timing."""

from typing import Final, NamedTuple


class Folder(NamedTuple):
    tier: str
    lane: str = ""
    """Tests of one lane run one after the other, on one worker; the others file by file, on all workers.

    The browser is in the lane of the tests that create network interfaces: each new one fails its open requests.
    """
    is_deterministic: bool = False
    """Its tests only compute: a slow computer cannot fail them, so their failures are never rerun."""


FOLDERS: Final = {
    "arrow": Folder("test", "first"),
    "chaos": Folder("fast", "second"),
    "cluster": Folder("test", "second"),
    "console": Folder("test", "second"),
    "docs": Folder("fast", "first"),
    "kafka": Folder("test", "first"),
    "raft": Folder("fast", is_deterministic=True),
    "replication": Folder("fast", is_deterministic=True),
    "sim": Folder("fast", is_deterministic=True),
    "spark": Folder("test", "first"),
    "testing": Folder("test", "second"),
    "tiers": Folder("fast", is_deterministic=True),
    "unit": Folder("fast", is_deterministic=True),
    "wire": Folder("test"),
}
"""The folders below tests/, and the earliest tier that runs their tests."""


def folder_of(nodeid: str) -> str:
    """The folder below tests/."""
    parts = nodeid.split("::")[0].split("/")
    return parts[1] if len(parts) > 2 else ""


def is_deterministic(nodeid: str) -> bool:
    folder = FOLDERS.get(folder_of(nodeid))
    return folder is not None and folder.is_deterministic


def lane_of(nodeid: str) -> str:
    folder = FOLDERS.get(folder_of(nodeid))
    return folder.lane if folder is not None else ""
