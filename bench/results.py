"""The values of all sessions: medians, ratios, and the JSON file they are kept in."""

import json
import os
import platform
import re
import statistics
import subprocess
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Self

from bench.measures import MEASURES, Measure
from tests.kafka.apache_kafka import VERSION


@dataclass
class Results:
    """Broker -> measure -> one value per repetition."""

    machine: dict[str, str]
    quick: bool
    values: dict[str, dict[str, list[float]]] = field(default_factory=dict)

    def add(self, broker: str, session: dict[str, float]) -> None:
        for key, value in session.items():
            self.values.setdefault(broker, {}).setdefault(key, []).append(value)

    def median(self, broker: str, measure: Measure) -> float:
        return statistics.median(self.values[broker][measure.key])

    def spread(self, broker: str, measure: Measure) -> tuple[float, float]:
        values = self.values[broker][measure.key]
        return min(values), max(values)

    def ratio(self, measure: Measure) -> float:
        return self.median("odradek", measure) / self.median("kafka", measure)

    @property
    def repetitions(self) -> int:
        return len(self.values["odradek"][MEASURES[0].key])

    @property
    def missed(self) -> list[Measure]:
        return [measure for measure in MEASURES if not measure.meets_bar(self.ratio(measure))]

    def save(self, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(asdict(self), indent=2) + "\n")

    @classmethod
    def load(cls, file: Path) -> Self:
        return cls(**json.loads(file.read_text()))


def describe_machine() -> dict[str, str]:
    """What a reader needs to judge the numbers; nothing that identifies the machine."""
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "([^"]+)"', java)
    return {
        "cores": str(os.cpu_count()),
        "memory": f"{memory_bytes / 2**30:.0f} GiB",
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "java": found[1] if found else "unknown",
        "kafka": VERSION,
        "commit": _commit(),
    }


def _commit() -> str:
    """What was measured; with a plus where the working tree has changes."""
    found = subprocess.run(["git", "describe", "--always", "--dirty=+"], capture_output=True, text=True, check=False)
    return found.stdout.strip() or "unknown"
