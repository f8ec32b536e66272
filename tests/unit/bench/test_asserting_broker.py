"""`make bench-assertions` exchanges the functions of a node that contain assertions."""

from types import FunctionType

import pytest

from bench.asserting_broker import ON_THE_PRODUCE_PATH, functions_with_assertions
from bench.exchanged_code import WITH, WITHOUT
from odradek.core.replication.high_watermark import HighWatermark


def test_functions_on_the_produce_path_have_assertions() -> None:
    assert set(ON_THE_PRODUCE_PATH) <= set(functions_with_assertions())


def test_an_exchanged_function_asserts_nothing() -> None:
    assert isinstance(HighWatermark.__init__, FunctionType)
    function = functions_with_assertions()["odradek.core.replication.high_watermark.HighWatermark.__init__"]
    function.switch_to(WITHOUT)
    try:
        HighWatermark(-1)
    finally:
        function.switch_to(WITH)
    with pytest.raises(AssertionError, match="high watermark -1 is negative"):
        HighWatermark(-1)
