"""A stream into a topic, exactly once: its query dies at every crash point, then its driver is killed, twice; no row is
lost, none is there twice. `make spark-kills` kills more.
"""

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.spark.crashing_source import CRASH_POINTS
from tests.spark.sink_driver import ROWS_PER_BATCH
from tests.spark.sink_kills import SinkUnderFire

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900), pytest.mark.tier("proof")]

ROWS = ROWS_PER_BATCH * 24
SEED = 7


@pytest.fixture
def sink(tmp_path: Path, spark_jars: tuple[Path, ...]) -> Iterator[SinkUnderFire]:
    with SinkUnderFire(tmp_path, ROWS) as opened:
        yield opened


def test_the_sink_is_exactly_once_if_any_process_dies(sink: SinkUnderFire) -> None:
    with sink.driver("crash") as driver:
        assert driver.wait_for("running"), driver.said
        died = [line.split(":")[1].strip() for line in driver.said if line.startswith("died")]
        assert died == list(CRASH_POINTS)
        time.sleep(random.Random(SEED).uniform(0.0, 3.0))
        driver.kill()
    sink.kill("driver", random.Random(SEED))
    assert sink.visible().total() < ROWS, "it was killed after its work"
    sink.finish()
    sink.check()
