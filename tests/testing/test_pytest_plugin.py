"""The pytest fixtures of an installed Odradek."""

import subprocess
import sys
from pathlib import Path

from odradek.testing import Cluster
from tests.testing.clients import consume, create_topic, produce


def test_kafka_cluster_has_three_brokers(kafka_cluster: Cluster) -> None:
    assert kafka_cluster.brokers == (1, 2, 3)
    create_topic(kafka_cluster, "from-a-fixture")
    produce(kafka_cluster, "from-a-fixture", ["hello"])
    assert consume(kafka_cluster, "from-a-fixture", 1) == ["hello"]


def test_kafka_broker_is_one_broker(kafka_broker: Cluster) -> None:
    assert kafka_broker.brokers == (1,)


def test_unused_fixtures_do_not_import_odradek(tmp_path: Path) -> None:
    (tmp_path / "test_other.py").write_text(
        "import sys\n"
        "def test_light(pytestconfig):\n"
        "    assert pytestconfig.pluginmanager.hasplugin('odradek')\n"
        "    found = {name for name in sys.modules if name.split('.')[0] in ('odradek', 'kio', 'uvloop')}\n"
        "    assert found == {'odradek', 'odradek.testing', 'odradek.testing.pytest_plugin'}\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
