"""Reading closed segments under leases from the files of a broker that rolls, deletes and compacts meanwhile."""

import base64
import socket
import struct
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from confluent_kafka import Producer

import odradek
from odradek.base.errors import KafkaError
from odradek.base.ids import TopicPartition
from odradek.client.address import parse_bootstrap
from odradek.client.admin import EARLIEST, Admin, Resource, ResourceType
from odradek.client.cluster import Cluster
from odradek.client.delete_records import delete_records
from odradek.client.leases import Lease, LeaseClient, LeaseCredentials, LeaseRenewer, NoLease
from odradek.pipelines.arrow.sources import OffsetsNotThere
from tests.leasing_process import SPARK, LeasingProcess
from tests.patience import Patience

pytestmark = pytest.mark.timeout(300)

COLUMNS = ["key", "value", "partition", "offset", "headers"]
VALUE = bytes(range(256)) * 4


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LeasingProcess]:
    node = LeasingProcess(tmp_path_factory.mktemp("leasing"))
    try:
        yield node.start()
    finally:
        node.remove()


@pytest.fixture(autouse=True)
def no_leases_left(broker: LeasingProcess) -> None:
    """A release by the previous test may still be in flight, or was dropped and the lease has to expire."""
    wait_until_no_leases_left(broker)


@pytest.fixture
def cluster(broker: LeasingProcess) -> Iterator[Cluster]:
    with Cluster(parse_bootstrap(broker.bootstrap)) as opened:
        yield opened


def create(cluster: Cluster, topic: str, **configs: str) -> None:
    dotted = {name.replace("_", "."): text for name, text in configs.items()}
    Admin(cluster).create_topic(topic, partitions=1, replication_factor=1, configs=dotted)


def fill(broker: LeasingProcess, topic: str, records: int, *, keys: int = 10**9, **configs: Any) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 5, **configs})
    for number in range(records):
        headers = [("h", b"%d" % number)] if number % 5 == 0 else None
        producer.produce(topic, VALUE, b"key-%d" % (number % keys), headers=headers)
        producer.poll(0)
    assert producer.flush(60) == 0


def rows(broker: LeasingProcess, topic: str, **options: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = begin(broker, topic, **options).read_all().to_pylist()
    return found


def begin(broker: LeasingProcess, topic: str, **options: Any) -> Any:
    return odradek.read_topic(topic, bootstrap_servers=broker.bootstrap, columns=COLUMNS, **options)


def test_release_from_a_closed_connection_keeps_links_and_leases_consistent(
    broker: LeasingProcess, cluster: Cluster
) -> None:
    """Either the release removed the lease and its links, or the lease is still listed and expires."""
    create(cluster, "hung-up")
    fill(broker, "hung-up", 3_000)
    leases = LeaseClient(cluster, LeaseCredentials(*SPARK), duration_ms=60_000)
    for _ in range(20):
        held = leases.request(TopicPartition("hung-up", 0), start=0, end=2**62, read_committed=True)
        assert held is not None
        with socket.create_connection(("127.0.0.1", broker.http_port)) as connection:
            auth = base64.b64encode(":".join(SPARK).encode()).decode()
            connection.sendall(
                f"DELETE /v1/leases/{held.lease_id} HTTP/1.1\r\nHost: x\r\nAuthorization: Basic {auth}\r\n\r\n".encode()
            )
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def linked_leases() -> set[str]:
        return {one.name.split("-")[1] for one in broker.links()}

    wait_until(lambda: len(linked_leases()) == len(broker.leases()))


def wait_until(condition: Callable[[], bool]) -> None:
    # The first compaction of a broker may have to compile the record walk.
    patience = Patience(120)
    while not condition():
        assert not patience.is_over()
        time.sleep(0.02)


def wait_until_no_leases_left(broker: LeasingProcess) -> None:
    wait_until(lambda: broker.leases() == [] == broker.links())


def test_files_and_brokers_return_the_same_rows_also_with_transactions(
    broker: LeasingProcess, cluster: Cluster
) -> None:
    create(cluster, "mixed")
    for codec in ("none", "zstd"):
        fill(broker, "mixed", 1_500, **{"compression.type": codec})
    for committed in (False, True, False):
        producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "one", "linger.ms": 5})
        producer.init_transactions(30)
        producer.begin_transaction()
        for number in range(1_500):
            producer.produce("mixed", VALUE, b"%d" % number)
        # Between the records of the transaction, and after it in separate segments.
        fill(broker, "mixed", 1_200)
        assert producer.flush(60) == 0
        producer.commit_transaction(30) if committed else producer.abort_transaction(30)
    open_one = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "open"})
    open_one.init_transactions(30)
    open_one.begin_transaction()
    open_one.produce("mixed", b"undecided")
    assert open_one.flush(60) == 0
    fill(broker, "mixed", 2_500)

    for read_committed in (True, False):
        expected = rows(broker, "mixed", read_committed=read_committed)
        under_lease = begin(broker, "mixed", read_committed=read_committed, lease=SPARK)
        (lease,) = broker.leases()
        assert lease["principal"] == "User:ANONYMOUS" and lease["segments"] == len(broker.links()) > 3
        assert under_lease.read_all().to_pylist() == expected
        wait_until_no_leases_left(broker)
    middle = rows(broker, "mixed", start=1_234, end=5_678)
    assert rows(broker, "mixed", start=1_234, end=5_678, lease=SPARK) == middle
    # A read_committed lease contains no records of open transactions.
    for read_committed in (True, False):
        held = request_lease(cluster, "mixed", read_committed=read_committed)
        undecided = Admin(cluster).offsets({TopicPartition("mixed", 0): -1}, read_committed=True)
        assert (held.files[-1].limit <= undecided[TopicPartition("mixed", 0)]) == read_committed
        LeaseRenewer(LeaseCredentials(*SPARK)).release([held])
    open_one.abort_transaction(30)


def request_lease(cluster: Cluster, topic: str, **options: Any) -> Lease:
    options = {"start": 0, "end": 2**62, "read_committed": True} | options
    duration_ms = options.pop("duration_ms", 60_000)
    credentials = options.pop("credentials", LeaseCredentials(*SPARK))
    held = LeaseClient(cluster, credentials, duration_ms=duration_ms).request(TopicPartition(topic, 0), **options)
    assert held is not None
    return held


def test_reader_that_never_reads_releases_its_lease(broker: LeasingProcess, cluster: Cluster) -> None:
    create(cluster, "unread")
    fill(broker, "unread", 2_500, **{"compression.type": "none"})
    unread = begin(broker, "unread", lease=SPARK)
    assert broker.leases()
    del unread
    wait_until_no_leases_left(broker)
    # The second partition is rejected after the first was leased.
    Admin(cluster).create_partitions("unread", 2)
    with pytest.raises(OffsetsNotThere):
        begin(broker, "unread", end={1: 1}, lease=SPARK)
    wait_until_no_leases_left(broker)


def test_retention_and_topic_deletion_keep_leased_segments(broker: LeasingProcess, cluster: Cluster) -> None:
    partition = TopicPartition("forgotten", 0)
    create(cluster, "forgotten")
    fill(broker, "forgotten", 5_000, **{"compression.type": "none"})
    expected = rows(broker, "forgotten", end=broker.closed_end("forgotten"))

    reading = begin(broker, "forgotten", end=len(expected), lease=SPARK)
    half = begin(broker, "forgotten", end=len(expected), lease=SPARK)
    delete_records(cluster, {partition: 2_000})
    late = begin(broker, "forgotten", end=len(expected), lease=SPARK)
    Admin(cluster).alter_configs(Resource(ResourceType.TOPIC, "forgotten"), changes={"retention.bytes": "1"})
    wait_until(lambda: earliest(cluster, "forgotten") == len(expected))
    directory = broker.log_dirs[0] / "forgotten-0"
    wait_until(lambda: len([one for one in directory.iterdir() if ".log" in one.name]) == 1)

    assert reading.read_all().to_pylist() == expected
    # Records deleted before the lease was granted are not read, although the file contains them.
    assert late.read_all().to_pylist() == expected[2_000:]
    Admin(cluster).delete_topic("forgotten")
    wait_until(lambda: not directory.exists())
    assert half.read_all().to_pylist() == expected
    wait_until_no_leases_left(broker)


@pytest.mark.tier("proof")
def test_compaction_does_not_replace_a_file_that_is_being_read(broker: LeasingProcess, cluster: Cluster) -> None:
    create(cluster, "compacted", cleanup_policy="compact", min_compaction_lag_ms="3600000")
    fill(broker, "compacted", 5_000, keys=10, **{"compression.type": "none"})
    expected = rows(broker, "compacted")
    reading = begin(broker, "compacted", lease=SPARK)
    Admin(cluster).alter_configs(Resource(ResourceType.TOPIC, "compacted"), changes={"min.compaction.lag.ms": "0"})
    wait_until(lambda: len(rows(broker, "compacted")) < 2_000)

    assert reading.read_all().to_pylist() == expected

    # The compacted log can be leased, too; the cleaner may be running again.
    wait_until(lambda: rows(broker, "compacted", lease=SPARK) == rows(broker, "compacted"))


def test_leased_reads_have_no_gaps_while_segments_roll_and_are_deleted(
    broker: LeasingProcess, cluster: Cluster
) -> None:
    """Each value contains its offset, which shows gaps and misplaced records."""
    create(cluster, "live", retention_bytes=str(2 << 20))
    is_over = Event()

    def write() -> None:
        producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 5})
        for number in count():
            producer.produce("live", b"%0500d" % number)
            if number % 100 == 0:
                producer.poll(0)
                if is_over.wait(0.04):
                    break
        assert producer.flush(60) == 0

    writer = Thread(target=write)
    writer.start()
    readings = 0
    try:
        wait_until(lambda: broker.closed_end("live") > 0)
        while readings < 3:
            try:
                reading = begin(broker, "live", end=broker.closed_end("live"), lease=SPARK)
                was_earliest = earliest(cluster, "live")
                wait_until(lambda limit=was_earliest: earliest(cluster, "live") > limit)
                found = reading.read_all()
            except (KafkaError, OffsetsNotThere):
                # Retention deleted the segment before the lease was granted.
                continue
            offsets = found.column("offset").to_pylist()
            if not offsets:
                continue
            assert found.column("value").to_pylist() == [b"%0500d" % offset for offset in offsets]
            assert offsets == list(range(offsets[0], offsets[-1] + 1))
            readings += offsets[0] <= was_earliest
    finally:
        is_over.set()
        writer.join()


def reject_lease(*_: Any, **__: Any) -> None:
    raise NoLease("User:spark needs READ permission on topic 'secret'")


def earliest(cluster: Cluster, topic: str) -> int:
    partition = TopicPartition(topic, 0)
    return Admin(cluster).offsets({partition: EARLIEST})[partition]


def test_rejected_leases_are_read_from_brokers_and_granted_ones_expire_unless_renewed(
    broker: LeasingProcess, cluster: Cluster, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(cluster, "secret")
    fill(broker, "secret", 2_500, **{"compression.type": "none"})
    with pytest.raises(NoLease, match="409: topic 'secret' was deleted and recreated"):
        request_lease(cluster, "secret", topic_id="AAAAAAAAAAAAAAAAAAAAAQ")
    assert not broker.links()
    # Without a lease the brokers return the same rows.
    expected = rows(broker, "secret")
    with monkeypatch.context() as patched:
        patched.setattr(LeaseClient, "request", reject_lease)
        assert rows(broker, "secret", lease=SPARK) == expected
    assert "Reading from brokers instead of segment files" in caplog.text

    kept, left = (
        request_lease(cluster, "secret", duration_ms=6_000),
        request_lease(cluster, "secret", duration_ms=6_000),
    )
    renewer = LeaseRenewer(LeaseCredentials(*SPARK))

    def is_over() -> bool:
        renewer.renew_if_due(kept)
        return not Path(left.files[0].path).exists()

    wait_until(is_over)
    assert all(Path(one.path).exists() for one in kept.files)
    renewer.release([kept])
    wait_until_no_leases_left(broker)


def test_lease_of_a_client_that_disconnected_expires(broker: LeasingProcess, cluster: Cluster) -> None:
    """The client closes the connection before the response: the broker grants the lease, and it expires."""
    create(cluster, "disconnected")
    fill(broker, "disconnected", 2_500, **{"compression.type": "none"})
    headers = "".join(f"{name}: {text}\r\n" for name, text in LeaseCredentials(*SPARK).headers.items())
    path = "/v1/leases?topic=disconnected&partition=0&duration_ms=6000"
    for _ in range(5):
        with socket.create_connection(("127.0.0.1", broker.http_port), timeout=10) as client:
            client.sendall(f"POST {path} HTTP/1.1\r\nHost: broker\r\n{headers}Content-Length: 0\r\n\r\n".encode())
    # A request without a response may also never have been received.
    wait_until(lambda: bool(broker.links()) or bool(broker.leases()))
    granted_at = time.monotonic()
    assert all(one["expires_in_ms"] <= 6_000 for one in broker.leases())
    wait_until_no_leases_left(broker)
    # The margin covers the time that a busy machine delays the broker.
    assert time.monotonic() - granted_at < 6.0 + 30.0


def test_leased_read_survives_the_kill_of_the_broker(broker: LeasingProcess, cluster: Cluster) -> None:
    """The last test, since it ends all leases."""
    create(cluster, "killed")
    fill(broker, "killed", 8_000, **{"compression.type": "none"})
    expected = rows(broker, "killed")
    closed = broker.closed_end("killed")

    only_files = begin(broker, "killed", end=closed, lease=SPARK)
    more = begin(broker, "killed", lease=SPARK, batch_rows=1_000)
    found = more.read_next_batch().to_pylist()
    broker.kill()

    assert only_files.read_all().to_pylist() == expected[:closed]
    assert broker.links()
    broker.start()
    wait_until(lambda: not broker.links())
    # The links are gone, so the rest is read from the brokers.
    assert found + more.read_all().to_pylist() == expected
