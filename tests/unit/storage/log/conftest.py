import os

import pytest

from odradek.host import disk as host_disk


@pytest.fixture(autouse=True)
def no_waiting_for_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests simulate no power loss, so fsync is skipped. Tests of syncing count the calls themselves."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
    monkeypatch.setattr(host_disk, "_sync_descriptor", lambda _: None)
