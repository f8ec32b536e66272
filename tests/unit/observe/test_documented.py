"""docs/reference/metrics.md lists every MBean that Apache Kafka 4.3.1 registers, with names by the exporter's rules.

tests/wire/test_metrics.py checks that a node serves exactly these.
"""

import re
from pathlib import Path

from tests.metrics_documented import absent, mbean_metrics

MBEANS = (Path(__file__).parent / "kafka_mbeans.txt").read_text().splitlines()


def test_every_mbean_is_documented_or_excluded_with_a_reason() -> None:
    served, missing = mbean_metrics(), absent()
    assert sorted([*served, *missing]) == sorted(MBEANS)
    assert all(missing.values())


def test_metric_names_follow_from_the_mbeans() -> None:
    for bean, names in mbean_metrics().items():
        match = re.fullmatch(r"(?P<domain>[\w.]+):type=(?P<type>[\w-]+)(,name=(?P<name>[\w-]+))?", bean)
        assert match is not None, bean
        base = re.sub(r"\W", "_", f"{match['domain']}_{match['type']}").lower()
        if match["name"] is None:
            # Attributes of an MBean that the rules leave out.
            assert all(name.startswith(f"{base}_") for name in names)
            continue
        whole = f"{base}_{match['name']}".lower()
        if whole.endswith("persec"):
            assert names == [f"{whole.removesuffix('persec')}_total"]
        else:
            assert names[0] in (whole, f"{whole}_count")
