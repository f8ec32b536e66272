from pathlib import Path

import pytest

from tests.unit.handlers.fake_broker import FakeBroker


@pytest.fixture
def broker(tmp_path: Path) -> FakeBroker:
    return FakeBroker(tmp_path)
