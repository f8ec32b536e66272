"""The section of docs/benchmarks.md that `make bench ARGS=--docs` writes."""

from pathlib import Path

from bench.page import WORKLOADS_SECTION
from bench.products import KAFKA, ODRADEK
from bench.workloads.figures import Sample
from bench.workloads.first_byte import Arrival
from bench.workloads.idle_connections import IdleCost
from bench.workloads.limits import PREAD_SEND, SENDFILE, WRITEV
from bench.workloads.report import write_section
from bench.workloads.rounds import Measured
from bench.workloads.rows import ROWS

MACHINE = dict.fromkeys(("cores", "memory", "java", "kafka", "commit"), "") | {"python": "3.12.1 (optimized build)"}


def measured() -> Measured:
    found = Measured(limits=[{SENDFILE: 0.4, PREAD_SEND: 0.5, WRITEV: seconds} for seconds in (1.0, 3.0, 2.0)])
    for row in ROWS:
        for side in row.sides:
            found.figures.add(row.key, side, Sample(100, 1.024, 70.0 if side != KAFKA else 1000, 60))
    for side in (KAFKA, ODRADEK):
        found.arrivals[side] = Arrival(1.5, 20, 52.4)
        found.idle[side] = IdleCost(10_000, 50, 150, 0.01, 0.02)
    return found


def section(tmp_path: Path) -> str:
    page = tmp_path / "benchmarks.md"
    page.write_text("# Benchmarks\n")
    write_section(measured(), MACHINE, page)
    return page.read_text()


def test_every_workload_has_a_line_with_rates_cpu_time_and_verdict(tmp_path: Path) -> None:
    text = section(tmp_path)
    assert WORKLOADS_SECTION in text
    for row in ROWS:
        assert f"| {row.title} | 100 {row.unit}/s | 100 {row.unit}/s | 1.00 × |" in text
    consumed = "| kafka-consumer-perf-test, 100 B lz4 | 100 records/s | 100 records/s | 1.00 × | ≥ 1.1 × | 1.02 µs"
    assert f"{consumed} | 1.02 µs | 1.00 × | ≤ 0.7 × | **missed**: rate, CPU |" in text


def test_limits_are_compared_with_the_cpu_time_per_byte(tmp_path: Path) -> None:
    text = section(tmp_path)
    assert (
        "| sendfile | 0.40 s (0.40–0.40) | 1.00 s (kafka-consumer-perf-test, 1 KiB) | 2.5 × | ≤ 2 × | **missed** |"
        in text
    )
    assert (
        "| pread + send | 0.50 s (0.50–0.50) | 1.00 s (kafka-consumer-perf-test, 1 KiB) | 2.0 × | ≤ 2 × | met |" in text
    )
    assert "| writev | 2.00 s (1.00–3.00) | 1.00 s (kafka-producer-perf-test, 1 KiB) | 0.5 × |  |  |" in text


def test_section_states_the_interpreter_and_the_connections(tmp_path: Path) -> None:
    text = section(tmp_path)
    assert "3.12.1 (optimized build)" in text
    assert "| Odradek | 10,000 | 50.0 MB | 150.0 MB | 10.0 kB | 1.0% of a core | 2.0% of a core |" in text
    assert "| Apache Kafka | 1.50 ms | 20.0 ms | 52.4 MB |" in text
