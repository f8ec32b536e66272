import pytest

from odradek.text.amounts import format_bytes


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [(0, "0 B"), (999, "999 B"), (999.9, "999 B"), (1000, "1.0 kB"), (2_550_000, "2.5 MB"), (3 * 10**15, "3000.0 TB")],
)
def test_bytes(size_bytes: float, text: str) -> None:
    assert format_bytes(size_bytes) == text
