"""A broker whose CPU time is measured turn by turn."""

from pathlib import Path

from tests.odradek_process import OdradekProcess


class MeasuredBroker(OdradekProcess):
    def server_properties(self) -> dict[str, str]:
        return super().server_properties() | {
            # Delete old records, because a filling page cache would disturb the measurement.
            "log.retention.bytes": "1",
            "log.retention.check.interval.ms": "1000",
            "log.segment.bytes": str(64 << 20),
        }

    @property
    def run_nanoseconds(self) -> int:
        """CPU time of all threads according to the scheduler, because clock ticks are too coarse for one turn."""
        return sum(int(one.read_text().split()[0]) for one in Path(f"/proc/{self.pid}/task").glob("*/schedstat"))
