"""Records the conversations of tests/golden/quorum_wire again: `python -m tests.kafka.quorum_wire` (Java is needed)."""

import tempfile
import time
from pathlib import Path
from typing import Any

from odradek.base.ids import METADATA_TOPIC
from odradek.core.metadata.snapshot import parse_file_name
from odradek.wire.schemas import schema
from tests.kafka.apache_kafka import kafka_libs
from tests.kafka.quorum_wire import recording, requests
from tests.kafka.quorum_wire.controllers import CLUSTER_ID, Controller
from tests.kafka.quorum_wire.recording import Recorded
from tests.kafka.quorum_wire.relay import Exchange
from tests.kafka.quorum_wire.requests import NAMES, Quorum, all_requests
from tests.raw_wire import CLIENT_ID, ConnectionClosed, RawConnection

INITIAL_VOTERS = 3
# So that a controller that comes late has to fetch a snapshot.
SMALL_LOG = {
    "metadata.log.max.record.bytes.between.snapshots": "2000",
    "internal.metadata.log.segment.bytes": "1000",
    "metadata.max.retention.bytes": "3000",
    "internal.metadata.delete.delay.millis": "1000",
}
DESCRIBE_QUORUM = {"topics": [{"topic_name": METADATA_TOPIC, "partitions": [{"partition_index": 0}]}]}
PATIENCE_S = 60.0


class Recorder:
    def __init__(self, directory: Path) -> None:
        self._exchanges: list[Exchange] = []
        libs = kafka_libs()
        self.controllers = [Controller(libs, directory, node_id, self._exchanges.append) for node_id in (1, 2, 3, 4)]
        first = self.controllers[:INITIAL_VOTERS]
        bootstrap = ",".join(f"127.0.0.1:{one.relay.port}" for one in first)
        for one in first:
            one.format(bootstrap, ",".join(two.voter for two in first), SMALL_LOG)
        self.controllers[-1].format(bootstrap, "", SMALL_LOG | {"controller.quorum.auto.join.enable": "true"})

    def record(self) -> list[Recorded]:
        for one in self.controllers[:INITIAL_VOTERS]:
            one.start()
        self._wait_for_voters(INITIAL_VOTERS)
        self._wait_for_snapshot()
        self.controllers[-1].start()
        leader = self._wait_for_voters(INITIAL_VOTERS + 1)
        leader.stop()
        leader = self._wait_for_voters(INITIAL_VOTERS + 1)
        between = self._between_controllers()
        follower = next(one for one in self.controllers[:INITIAL_VOTERS] if one is not leader and one.is_running)
        every = self._send_all(leader, "the leader")
        newest = {api_key: max(one.version for one in every if one.api_key == api_key) for api_key in NAMES}
        refused = [one for one in self._send_all(follower, "a follower") if one.version == newest[one.api_key]]
        return [*between, *every, *refused]

    def close(self) -> None:
        for one in self.controllers:
            one.kill()
            one.relay.close()

    # Waiting

    def _wait_for_voters(self, count: int) -> Controller:
        """Returns the leader, once all its voters but one, or all, have fetched its whole log."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            for one in self.controllers:
                partition = _describe(one)
                if partition is None or partition.error_code or len(partition.current_voters) != count:
                    continue
                ends = [voter.log_end_offset for voter in partition.current_voters]
                if partition.high_watermark > 0 and sum(end >= partition.high_watermark for end in ends) >= count - 1:
                    return one
            time.sleep(0.5)
        raise TimeoutError(f"no quorum of {count} voters")

    def _wait_for_snapshot(self) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            directories = [one.metadata_directory for one in self.controllers[:INITIAL_VOTERS]]
            if not any((directory / f"{0:020}.log").exists() for directory in directories):
                return
            time.sleep(0.5)
        raise TimeoutError("no log was truncated")

    # Recorded exchanges

    def _between_controllers(self) -> list[Recorded]:
        """Of each kind of exchange the shortest."""
        kinds: dict[tuple[int, int, str], Recorded] = {}
        for one in list(self._exchanges):
            if one.client_id == CLIENT_ID or one.api_key not in NAMES:
                continue
            title = f"between controllers: {_kind(one)}"
            recorded = Recorded(one.api_key, one.version, title, one.request, one.response)
            key = (one.api_key, one.version, title)
            if key not in kinds or len(one.response) < len(kinds[key].response):
                kinds[key] = recorded
        return list(kinds.values())

    def _send_all(self, controller: Controller, role: str) -> list[Recorded]:
        partition = _describe(self._wait_for_voters(INITIAL_VOTERS + 1))
        snapshots = sorted(
            filter(None, (parse_file_name(path.name) for path in controller.metadata_directory.iterdir()))
        )
        quorum = Quorum(
            cluster_id=CLUSTER_ID,
            leader_id=controller.node_id,
            leader_directory_id=controller.directory_id,
            epoch=partition.leader_epoch,
            end_offset=partition.high_watermark,
            snapshot=snapshots[-1] if snapshots else None,
        )
        recorded = []
        for request in all_requests(quorum):
            self._exchanges.clear()
            with RawConnection(controller.relay.port, timeout_s=10) as connection:
                connection.send(request.api_key, request.version, request.fields)
                connection.receive()
            one = next(one for one in self._exchanges if one.client_id == CLIENT_ID)
            title = f"to {role}: {request.title}"
            recorded.append(Recorded(one.api_key, one.version, title, one.request, one.response))
        return recorded


def _describe(controller: Controller) -> Any:
    try:
        with RawConnection(controller.relay.port, timeout_s=5) as connection:
            return connection.request(requests.DESCRIBE, 2, DESCRIBE_QUORUM).topics[0].partitions[0]
    except (OSError, ConnectionClosed):
        return None


def _kind(one: Exchange) -> str:
    messages = schema(one.api_key, one.version)
    request, _ = messages.read_request(one.request, 0)
    response, _ = messages.read_response(one.response, 0)
    if response.error_code:
        return str(response.error_code.name)
    match one.api_key:
        case requests.VOTE:
            partition = response.topics[0].partitions[0]
            is_granted = "granted" if partition.vote_granted else "not granted"
            kind = "pre-vote" if request.topics[0].partitions[0].pre_vote else "vote"
            return f"{kind}, {partition.error_code.name}, {is_granted}"
        case requests.FETCH:
            partition = response.responses[0].partitions[0]
            records = "records" if partition.records else "no records"
            snapshot = ", a snapshot" if partition.snapshot_id.end_offset >= 0 else ""
            diverging = ", diverging" if partition.diverging_epoch.epoch >= 0 else ""
            return f"{partition.error_code.name}, {records}{snapshot}{diverging}"
        case requests.BEGIN | requests.END | requests.FETCH_SNAPSHOT:
            return str(response.topics[0].partitions[0].error_code.name)
    return "none"


def main() -> None:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        recorder = Recorder(Path(directory))
        try:
            recording.write(recorder.record())
        finally:
            recorder.close()


if __name__ == "__main__":
    main()
