"""A short run of `make chaos`: one minute in `make test`, two in `make proof`.

ODRADEK_CHAOS_SECONDS and ODRADEK_CHAOS_SEED set its length and its plan. After a failure, logs and data are kept.
"""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.chaos.figures import as_table, shown
from tests.chaos.run import Settings, run

pytestmark = pytest.mark.needs("confluent_kafka")

SECONDS = float(os.environ.get("ODRADEK_CHAOS_SECONDS", "60"))
SEED = int(os.environ.get("ODRADEK_CHAOS_SEED", "1"))


@pytest.fixture
def directory() -> Iterator[Path]:
    """A new directory. A successful run removes its nodes' files; a failed run keeps them."""
    path = Path(tempfile.mkdtemp(prefix="odradek-chaos-"))
    yield path
    if not any(path.glob("node-*")):
        shutil.rmtree(path)


@pytest.mark.timeout(300 + 3 * SECONDS)
def test_faults_cause_no_anomalies(
    directory: Path, apache_kafka_libs: Path, namespaces: None, measured: Callable[[str], None]
) -> None:
    settings = Settings(seed=SEED, directory=directory, seconds=SECONDS, kafka_libs=apache_kafka_libs)
    outcome = run(settings, print)
    measured(as_table(outcome.figures, outcome.anomalies))
    done = "\n".join(outcome.faults)
    assert not outcome.anomalies, f"{shown(outcome.anomalies)}\n{done}\nlogs and data: {directory}"
    assert outcome.figures.missing == []
