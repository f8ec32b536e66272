"""A real node scraped over HTTP: its metrics match what clients did, and bad HTTP clients do not disturb it."""

import json
import math
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from odradek.base.errors import ErrorCode
from tests.apis import Api
from tests.metrics_documented import mbean_metrics, own_metrics
from tests.metrics_scrape import get, scrape
from tests.node_process import free_ports
from tests.odradek_process import OdradekProcess
from tests.raw_wire import RawConnection
from tests.record_batches import TestRecord, batch
from tests.wire.plain_requests import create_topic, delete_topic, fetch, now_ms, produce, produce_batch, until

TOPICS = "kafka_server_brokertopicmetrics"
REQUESTS = "kafka_network_requestmetrics"


class Observed(OdradekProcess):
    http_port: int


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Observed]:
    (port,) = free_ports(1)
    process = Observed(tmp_path_factory.mktemp("observed"), properties={"http.address": str(port)})
    process.http_port = port
    try:
        yield process.start()
    finally:
        process.remove()


@pytest.fixture
def wire(node: Observed) -> Iterator[RawConnection]:
    with RawConnection(node.port) as connection:
        yield connection


def test_every_request_and_every_byte_is_counted(node: Observed, wire: RawConnection, topic: str) -> None:
    create_topic(wire, topic)
    before = scrape(node.http_port)
    batches = [batch(*[TestRecord(b"x" * size)] * 3, timestamp=now_ms()) for size in (1, 100, 10_000)]
    for records in batches:
        assert produce_batch(wire, topic, records).error is ErrorCode.none
    fetched = fetch(wire, topic, 0)
    assert len(fetched.values) == len(batches)
    after = scrape(node.http_port)

    def grown(name: str, **labels: str) -> float:
        try:
            earlier = before(name, **labels)
        except KeyError:
            earlier = 0.0
        return after(name, **labels) - earlier

    written = sum(map(len, batches))
    for labels in ({}, {"topic": topic}):
        assert grown(f"{TOPICS}_bytesin_total", **labels) == written
        assert grown(f"{TOPICS}_messagesin_total", **labels) == 9
        assert grown(f"{TOPICS}_bytesout_total", **labels) == written
        assert grown(f"{TOPICS}_totalproducerequests_total", **labels) == 3
        assert grown(f"{TOPICS}_totalfetchrequests_total", **labels) == 1
        assert grown(f"{TOPICS}_failedproducerequests_total", **labels) == 0
    assert grown(f"{REQUESTS}_requests_total", request="Produce", version="9") == 3
    for name in ("FetchConsumer", "Fetch"):
        assert sum(grown(f"{REQUESTS}_requests_total", **one) for one in versions(after, name)) == 1
    for part in ("totaltimems", "localtimems", "remotetimems", "requestqueuetimems"):
        assert grown(f"{REQUESTS}_{part}_count", request="Produce") == 3
    total, local = (
        after(f"{REQUESTS}_{part}", request="Produce", quantile="0.50") for part in ("totaltimems", "localtimems")
    )
    assert 0 < local <= total < 1000
    one = {"topic": topic, "partition": "0"}
    assert after("kafka_log_log_size", **one) == written
    assert after("kafka_log_log_numlogsegments", **one) == 1
    assert (after("kafka_log_log_logstartoffset", **one), after("kafka_log_log_logendoffset", **one)) == (0, 9)
    assert after("kafka_cluster_partition_replicascount", **one) == 1
    assert after("kafka_cluster_partition_underreplicated", **one) == 0
    assert after("kafka_server_socket_server_metrics_connection_count", listener="PLAINTEXT") >= 1


def versions(scraped: Any, request: str) -> list[dict[str, str]]:
    return [one for one in scraped.labels(f"{REQUESTS}_requests_total") if one["request"] == request]


def test_topic_metrics_of_a_producer_and_a_consumer(node: Observed, wire: RawConnection, topic: str) -> None:
    create_topic(wire, topic, partitions=2)
    producer = Producer({"bootstrap.servers": node.bootstrap, "linger.ms": 5, "enable.idempotence": True})
    for number in range(5_000):
        producer.produce(topic, f"value {number}".encode(), partition=number % 2)
    assert producer.flush(20) == 0
    consumer = Consumer({"bootstrap.servers": node.bootstrap, "group.id": topic, "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, index, OFFSET_BEGINNING) for index in (0, 1)])
    read = 0
    while read < 5_000:
        read += len(consumer.consume(1000, timeout=10))
    consumer.close()
    found = scrape(node.http_port)
    stored = sum(found("kafka_log_log_size", topic=topic, partition=str(index)) for index in (0, 1))
    assert found(f"{TOPICS}_messagesin_total", topic=topic) == 5_000
    assert found(f"{TOPICS}_bytesin_total", topic=topic) == stored
    assert found(f"{TOPICS}_bytesout_total", topic=topic) == stored
    assert found("kafka_server_replicamanager_produceridcount") >= 2


def test_error_metrics_use_kafkas_error_names(node: Observed, wire: RawConnection, topic: str) -> None:
    create_topic(wire, topic, configs={"max.message.bytes": "1000"})
    large = batch(TestRecord(b"x" * 2000), timestamp=now_ms())
    assert produce_batch(wire, topic, large).error is ErrorCode.message_too_large
    assert produce(wire, "nowhere-" + topic, b"x").error is ErrorCode.unknown_topic_or_partition
    assert fetch(wire, topic, 77).error is ErrorCode.offset_out_of_range
    assert create_topic(wire, topic) is ErrorCode.topic_already_exists
    found = scrape(node.http_port)
    for request, error in (
        ("Produce", "MESSAGE_TOO_LARGE"),
        ("Produce", "UNKNOWN_TOPIC_OR_PARTITION"),
        ("Fetch", "OFFSET_OUT_OF_RANGE"),
        ("CreateTopics", "TOPIC_ALREADY_EXISTS"),
    ):
        assert found(f"{REQUESTS}_errors_total", request=request, error=error) == 1
    assert found(f"{TOPICS}_bytesrejected_total", topic=topic) == len(large)
    # As in Kafka, a mistake of the client is not a failed request of the broker.
    assert found(f"{TOPICS}_failedproducerequests_total", topic=topic) == 0


def test_deleting_a_topic_keeps_the_broker_totals(node: Observed, wire: RawConnection, topic: str) -> None:
    create_topic(wire, topic)
    produce(wire, topic, b"x" * 1000)
    before = scrape(node.http_port)
    assert before(f"{TOPICS}_messagesin_total", topic=topic) == 1
    delete_topic(wire, topic)

    def is_gone() -> bool:
        return {"topic": topic} not in scrape(node.http_port).labels(f"{TOPICS}_messagesin_total")

    until(is_gone, what="the topic to leave the metrics")
    assert scrape(node.http_port)(f"{TOPICS}_bytesin_total") == before(f"{TOPICS}_bytesin_total")


def test_long_polls_count_as_remote_time(node: Observed, wire: RawConnection, topic: str) -> None:
    create_topic(wire, topic)
    before = scrape(node.http_port)
    fetch(wire, topic, 0, max_wait_ms=4_000)
    after = scrape(node.http_port)

    def grown(part: str) -> float:
        name = f"{REQUESTS}_{part}_sum"
        was_requested_before = {"request": "FetchConsumer"} in before.labels(name)
        earlier = before(name, request="FetchConsumer") if was_requested_before else 0.0
        return after(name, request="FetchConsumer") - earlier

    assert 3_500 < grown("remotetimems") <= grown("totaltimems") < 30_000
    assert grown("localtimems") < 2_000


def test_controller_replica_and_process_metrics(node: Observed) -> None:
    found = scrape(node.http_port)
    assert found("kafka_controller_kafkacontroller_activecontrollercount") == 1
    assert found("kafka_controller_kafkacontroller_activebrokercount") == 1
    assert found("kafka_controller_kafkacontroller_offlinepartitionscount") == 0
    assert found("kafka_server_replicamanager_underreplicatedpartitions") == 0
    assert found("kafka_log_logmanager_offlinelogdirectorycount") == 0
    assert found("odradek_ready") == 1
    assert found("process_resident_memory_bytes") > 10_000_000
    assert not math.isnan(found("odradek_event_loop_stall_seconds", quantile="0.99"))


def test_idle_node_reports_its_idle_time(node: Observed) -> None:
    name = "kafka_server_kafkarequesthandlerpool_requesthandleravgidlepercent_count"

    def idle_s() -> float:
        # A node that was stalled counts that time only after its next response.
        scrape(node.http_port)
        # In nanoseconds, as Kafka's meter: its rate is the share of idle time.
        return scrape(node.http_port)(name) / 1e9

    before_first = time.monotonic()
    first = idle_s()
    after_first = time.monotonic()
    time.sleep(1.0)
    before_second = time.monotonic()
    idle = idle_s() - first
    after_second = time.monotonic()
    assert idle > 0.3 * (before_second - after_first)
    assert idle <= 1.1 * (after_second - before_first)


def test_health_endpoints(node: Observed) -> None:
    assert get(node.http_port, "/healthz").body == b"ok\n"
    assert get(node.http_port, "/readyz") == (200, "text/plain; charset=utf-8", b"ready\n")
    missing = get(node.http_port, "/nothing")
    assert missing.status == 404
    assert b"/v1/traffic" in missing.body


def test_traffic_endpoint_reports_partition_rates(node: Observed, wire: RawConnection, topic: str) -> None:
    create_topic(wire, topic)

    def read_traffic() -> list[dict[str, Any]]:
        produce(wire, topic, b"x" * 10_000)
        response = get(node.http_port, "/v1/traffic")
        assert (response.status, response.content_type) == (200, "application/json")
        traffic = json.loads(response.body)
        assert (traffic["node"], traffic["cluster"]) == (1, node.cluster_id)
        return [one for one in traffic["partitions"] if one["topic"] == topic]

    until(lambda: bool(read_traffic()), within_s=15, what="the rate to be known")
    (one,) = read_traffic()
    assert (one["partition"], one["is_leader"]) == (0, True)
    assert one["bytes_in_per_second"] > 1_000
    assert one["bytes_out_per_second"] == 0


def test_group_metrics_and_rebalance_causes(node: Observed, wire: RawConnection, topic: str) -> None:
    create_topic(wire, topic)
    settings = {"bootstrap.servers": node.bootstrap, "group.id": topic, "auto.offset.reset": "earliest"}
    consumer = Consumer(settings)
    consumer.subscribe([topic])
    produce(wire, topic, b"x")
    try:
        until(lambda: consumer.poll(0.5) is not None, within_s=30, what="the group's first record")
        found = scrape(node.http_port)
        assert found("kafka_coordinator_group_groupmetadatamanager_numgroupsstable") == 1
        assert found("kafka_coordinator_group_groupmetadatamanager_numgroups") >= 1
        assert found("kafka_server_group_coordinator_metrics_group_count", protocol="classic") >= 1
        report = json.loads(get(node.http_port, "/v1/rebalances").body)
        assert (report["node"], report["cluster"]) == (1, node.cluster_id)
        (group,) = [one for one in report["groups"] if one["group"] == topic]
        assert group["state"] == "Stable"
        first = group["rebalances"][0]
        assert first["cause"]
        assert first["began_ms"] <= first["ended_ms"] <= now_ms()
    finally:
        consumer.close()
    after_close = scrape(node.http_port)
    assert after_close("kafka_coordinator_group_groupmetadatamanager_numgroupsstable") == 0
    assert after_close("kafka_coordinator_group_groupmetadatamanager_numgroupsempty") >= 1


def test_served_metrics_match_the_documented_metrics(node: Observed, wire: RawConnection) -> None:
    for kind in (GROUP, TRANSACTION):
        until(lambda kind=kind: find_coordinator(wire, kind) is ErrorCode.none, within_s=20, what="coordinators")
    documented = {name for names in mbean_metrics().values() for name in names} | own_metrics()

    def served() -> set[str]:
        text = get(node.http_port, "/metrics").body.decode()
        return {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE ")}

    until(lambda: "odradek_transactional_ids" in served(), within_s=20, what="coordinators to be loaded")
    assert {name for name in served() if not name.startswith("process_")} == documented


GROUP, TRANSACTION = 0, 1


def find_coordinator(wire: RawConnection, kind: int) -> ErrorCode:
    response = wire.request(Api.FIND_COORDINATOR, 4, {"key_type": kind, "coordinator_keys": ["any"]})
    return ErrorCode(response.coordinators[0].error_code)


# Bad HTTP clients


def test_head_returns_the_content_length_of_get(node: Observed) -> None:
    with socket.create_connection(("127.0.0.1", node.http_port), timeout=20) as connection:
        connection.sendall(b"HEAD /healthz HTTP/1.1\r\nHost: x\r\n\r\nGET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        received = b""
        while not received.endswith(b"\r\n\r\nok\n"):
            received += connection.recv(65536)
        # One response without a body and one with a body, on the same connection.
        assert received.lower().count(b"content-length: 3") == 2
        assert received.count(b"ok\n") == 1


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"\x00\x00\x00\x0e\x00\x03\x00\x01\x00\x00\x00\x07\xff\xff\x00\x00\x00\x00", b" 400 "),
        (b"GET / HTTP/1.1\r\nno colon\r\n\r\n", b" 400 "),
        (b"GET /metrics HTTP/1.1\r\n\r\n", b" 400 "),
        (b"GET /" + b"a" * 100_000, b" 431 "),
        (b"GET / HTTP/1.1\r\nHost: x\r\n" + b"X: y\r\n" * 20_000, b" 431 "),
        (b"POST /metrics HTTP/1.1\r\nHost: x\r\n\r\n", b" 405 "),
        (b"DELETE /v1/traffic HTTP/1.1\r\nHost: x\r\n\r\n", b" 405 "),
        (b"GET /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello", b" 413 "),
        (b"GET /metrics HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", b" 413 "),
        (b"GET /%2e%2e/etc/passwd HTTP/1.1\r\nHost: x\r\n\r\n", b" 404 "),
    ],
)
def test_invalid_http_requests_are_rejected(node: Observed, sent: bytes, status: bytes) -> None:
    with socket.create_connection(("127.0.0.1", node.http_port), timeout=20) as connection:
        try:
            connection.sendall(sent)
            response = connection.recv(4096)
        except ConnectionError:
            # The node closed the connection before it read everything, so its response may be dropped.
            response = b""
    assert response.split(b"\r\n")[0].find(status.strip()) > 0 or not response
    if len(sent) < 1000:
        assert response
    assert get(node.http_port, "/healthz").status == 200


def test_http_client_that_sends_too_slowly_is_disconnected(node: Observed) -> None:
    with socket.create_connection(("127.0.0.1", node.http_port), timeout=20) as connection:
        connection.sendall(b"GET /metrics HTTP/1.1\r\n")
        begun = time.monotonic()
        ended = False
        while not ended and time.monotonic() - begun < 30:
            try:
                connection.sendall(b"X: y\r\n")
                connection.settimeout(0.25)
                ended = connection.recv(1) == b""
            except TimeoutError:
                continue
            except ConnectionError:
                ended = True
        assert ended
        assert 4 < time.monotonic() - begun < 30


def test_many_http_connections_disturb_neither_scrapes_nor_clients(
    node: Observed, wire: RawConnection, topic: str
) -> None:
    create_topic(wire, topic)
    connections = [socket.create_connection(("127.0.0.1", node.http_port), timeout=20) for _ in range(300)]
    try:
        for number, one in enumerate(connections):
            try:
                one.sendall((b"GET /met", b"\xff" * 50, b"", b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")[number % 4])
            except ConnectionError:
                # Already disconnected.
                continue
        for _ in range(50):
            begun = time.monotonic()
            assert produce(wire, topic, b"x").error is ErrorCode.none
            assert time.monotonic() - begun < 10.0
        assert get(node.http_port, "/readyz").status == 200
        assert scrape(node.http_port)(f"{TOPICS}_messagesin_total", topic=topic) == 50
    finally:
        for one in connections:
            one.close()
    assert node.process is not None and node.process.poll() is None
    assert "Traceback" not in node.output_file.read_text()


def test_http_client_that_does_not_read_does_not_block_the_node(node: Observed, wire: RawConnection) -> None:
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        connection.connect(("127.0.0.1", node.http_port))
        connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 50)
        for _ in range(20):
            assert wire.request(Api.METADATA, 1, {"topics": []}) is not None
        assert scrape(node.http_port)("odradek_ready") == 1


def test_metrics_libraries_are_not_imported_before_they_are_needed() -> None:
    program = (
        "import sys, odradek.node.run; print([name for name in ('h11', 'prometheus_client', 'http') "
        "if name in sys.modules])"
    )
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert finished.stdout == "[]\n"


def test_http_address_in_use_is_named_in_the_error(node: Observed, tmp_path: Any) -> None:
    other = OdradekProcess(tmp_path, properties={"http.address": f"127.0.0.1:{node.http_port}"})
    other.prepare()
    finished = subprocess.run(other.start_command(), capture_output=True, text=True, timeout=60)
    assert finished.returncode == 2
    assert f"http.address=127.0.0.1:{node.http_port}" in finished.stderr.splitlines()[-1]
