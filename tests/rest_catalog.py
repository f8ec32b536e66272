"""A real REST catalog: the server that Apache Iceberg tests its own clients with, as a process.

It does not authenticate clients; the proxy in front of it does (`tests/catalog_front.py`).
"""

import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Final, Self

import pyspark

from tests import components
from tests.java import require_java
from tests.maven import Artifact, fetched_jars
from tests.node_process import free_ports
from tests.patience import Patience

ICEBERG_VERSION = "1.10.1"
_NAME: Final = f"iceberg-rest-catalog-{ICEBERG_VERSION}"
_ARTIFACTS: Final = (
    Artifact("org.apache.iceberg", "iceberg-core", ICEBERG_VERSION),
    Artifact("org.apache.iceberg", "iceberg-core", ICEBERG_VERSION, "tests"),
    Artifact("org.eclipse.jetty", "jetty-servlet", "11.0.26"),
    Artifact("org.xerial", "sqlite-jdbc", "3.50.3.0"),
    Artifact("org.slf4j", "slf4j-simple", "2.0.17"),
)
_FLAGS: Final = ("-XX:TieredStopAtLevel=1", "-Xshare:auto", "-XX:+UseSerialGC", "-Xmx256M")
_START_S_MAX: Final = 60.0
_SOURCE: Final = Path(__file__).parent / "spark" / "java" / "LoopbackCatalog.java"


def require_rest_catalog() -> str:
    """The class path of the server."""
    return components.require("Apache Iceberg's REST catalog", _class_path)


def _class_path() -> str:
    require_java()
    libs = fetched_jars(_NAME, _ARTIFACTS)
    # It accesses files through Hadoop's classes, which come with PySpark.
    hadoop = sorted((Path(pyspark.__file__).parent / "jars").glob("hadoop-client-*.jar"))
    return ":".join([f"{libs}/*", *map(str, hadoop)])


class RestCatalogServer:
    """Keeps its state in `directory`, so that it can be restarted."""

    def __init__(self, class_path: str, directory: Path) -> None:
        self._class_path: Final = class_path
        self._directory: Final = directory
        self._process: subprocess.Popen[bytes] | None = None
        (self.port,) = free_ports(1)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> Self:
        self._directory.mkdir(parents=True, exist_ok=True)
        places = (f"file://{self._directory / 'warehouse'}", f"jdbc:sqlite:{self._directory / 'catalog.db'}")
        command = [str(require_java().executable), *_FLAGS, "-cp", self._class_path, str(_SOURCE)]
        with (self._directory / "server.log").open("ab") as log:
            self._process = subprocess.Popen([*command, str(self.port), *places], stdout=log, stderr=subprocess.STDOUT)
        patience = Patience(_START_S_MAX)
        while not self._serves():
            assert self._process.poll() is None and not patience.is_over(), (self._directory / "server.log").read_text()
            time.sleep(0.05)
        return self

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _serves(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.address}/v1/config", timeout=5) as response:
                return bool(response.status == 200)
        except (urllib.error.URLError, OSError):
            return False
