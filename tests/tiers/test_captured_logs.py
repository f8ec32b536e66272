"""Captured log messages stay plain text beside PySpark's loggers."""

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture
def json_logger() -> Iterator[None]:
    from pyspark.logger import PySparkLogger

    logger = PySparkLogger.getLogger("tests.tiers.json")
    logger.propagate = False
    yield
    logger.propagate = True


@pytest.mark.needs("pyspark")
def test_messages_are_captured_as_text_beside_a_json_logger(
    json_logger: None, caplog: pytest.LogCaptureFixture
) -> None:
    logging.getLogger("tests.tiers").warning("plain text")
    assert "plain text" in caplog.text
    assert '"msg"' not in caplog.text
