"""Odradek as its users run it: `odradek format`, then `odradek start server.properties`, in a process of its own."""

import os
import sys
from pathlib import Path

from tests.node_process import NodeProcess

ODRADEK = Path(sys.executable).with_name("odradek")


class OdradekProcess(NodeProcess):
    name = "odradek"

    def format_command(self) -> list[str]:
        return [str(ODRADEK), "format", "--cluster-id", self.cluster_id, "--config", str(self.config_file)]

    def environment(self) -> dict[str, str]:
        # Compiled modules are kept between runs, as after an installation of the package.
        return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}

    def start_command(self) -> list[str]:
        return [str(ODRADEK), "start", str(self.config_file)]
