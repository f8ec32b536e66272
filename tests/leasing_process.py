"""A broker that leases its closed segments, and rolls and deletes segments quickly."""

import json
from pathlib import Path
from typing import Any, Final

from tests.metrics_scrape import get
from tests.node_process import free_ports
from tests.odradek_process import OdradekProcess

SPARK: Final = ("spark", "a-secret-of-spark")
"""Credentials. A broker without users does not check them."""


class LeasingProcess(OdradekProcess):
    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        (self.http_port,) = free_ports(1)
        super().__init__(
            directory / "node",
            properties={
                "http.address": str(self.http_port),
                "log.segment.bytes": str(1 << 20),
                "log.retention.check.interval.ms": "200",
                "log.initial.task.delay.ms": "100",
                "log.segment.delete.delay.ms": "0",
                "log.cleaner.backoff.ms": "100",
            },
        )

    def leases(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(get(self.http_port, "/v1/leases").body)["leases"]
        return found

    def links(self) -> list[Path]:
        return sorted(one for one in self.log_dirs[0].iterdir() if one.name.startswith(".lease-"))

    def closed_end(self, topic: str) -> int:
        """The base offset of the first partition's active segment."""
        return max(int(one.stem) for one in (self.log_dirs[0] / f"{topic}-0").glob("*.log"))
