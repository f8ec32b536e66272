"""The values of all sessions: medians, ratios, and the JSON file."""

import json
import os
import platform
import re
import statistics
import subprocess
from dataclasses import asdict, dataclass, field
from pathlib import Path

from bench.measures import Measure
from odradek.local.interpreter import is_optimized
from tests.components import ROOT
from tests.kafka.apache_kafka import VERSION

RESULTS = ROOT / "bench-results"
"""Directory for the values of every benchmark."""


@dataclass
class Results:
    """Product -> measure -> one value per repetition."""

    suite: str
    machine: dict[str, str]
    quick: bool
    values: dict[str, dict[str, list[float]]] = field(default_factory=dict)

    def add(self, product: str, session: dict[str, float]) -> None:
        for key, value in session.items():
            self.values.setdefault(product, {}).setdefault(key, []).append(value)

    def median(self, product: str, measure: Measure) -> float:
        return statistics.median(self.values[product][measure.key])

    def spread(self, product: str, measure: Measure) -> tuple[float, float]:
        values = self.values[product][measure.key]
        return min(values), max(values)

    def ratio(self, measure: Measure) -> float:
        return self.median("odradek", measure) / self.median("kafka", measure)

    @property
    def repetitions(self) -> int:
        return max(len(values) for values in self.values["odradek"].values())

    def save(self, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(asdict(self), indent=2) + "\n")


def describe_machine() -> dict[str, str]:
    """Describes the computer for readers of the results, without identifying it."""
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "([^"]+)"', java)
    return {
        "cores": str(os.cpu_count()),
        "memory": f"{memory_bytes / 2**30:.0f} GiB",
        "system": f"{platform.system()} {platform.machine()}",
        "python": f"{platform.python_version()} ({'optimized' if is_optimized() else 'unoptimized'} build)",
        "java": found[1] if found else "unknown",
        "kafka": VERSION,
        "commit": _commit(),
    }


def _commit() -> str:
    """The measured commit, with a plus sign if the working tree has changes outside of the docs that runs write."""
    found = subprocess.run(["git", "describe", "--always"], capture_output=True, text=True, check=False)
    outside_docs = ["git", "diff", "--quiet", "HEAD", "--", ".", ":(top,exclude)docs"]
    changes = subprocess.run(outside_docs, cwd=ROOT, capture_output=True, check=False).returncode
    return f"{found.stdout.strip()}{'+' if changes else ''}" if found.stdout else "unknown"
