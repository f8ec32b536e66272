"""Closed segments read from the files of a broker that runs, rolls, forgets and compacts meanwhile: under leases."""

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
from tests.leasing_process import OTHER, SPARK, LeasingProcess
from tests.metrics_scrape import get
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
def nothing_is_leased(broker: LeasingProcess) -> None:
    """What the test before gave back may still be on its way, or was lost and has to end by itself."""
    wait_until_nothing_is_leased(broker)


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


def test_who_gives_a_lease_back_and_hangs_up(broker: LeasingProcess, cluster: Cluster) -> None:
    """Its names are gone with it, or it is still known, and ends by itself."""
    create(cluster, "hung-up")
    fill(broker, "hung-up", 3_000)
    leases = LeaseClient(cluster, LeaseCredentials(*SPARK), duration_ms=60_000)
    for _ in range(20):
        held = leases.request(TopicPartition("hung-up", 0), start=0, end=2**62, read_committed=True)
        assert held is not None
        with socket.create_connection(("127.0.0.1", broker.http_port)) as connection:
            told = base64.b64encode(":".join(SPARK).encode()).decode()
            connection.sendall(
                f"DELETE /v1/leases/{held.lease_id} HTTP/1.1\r\nHost: x\r\nAuthorization: Basic {told}\r\n\r\n".encode()
            )
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def linked() -> set[str]:
        return {one.name.split("-")[1] for one in broker.links()}

    wait_until(lambda: len(linked()) == len(broker.leases()))


def wait_until(what: Callable[[], bool]) -> None:
    # The first compaction of a broker may have to compile what walks through records.
    patience = Patience(120)
    while not what():
        assert not patience.is_over()
        time.sleep(0.02)


def wait_until_nothing_is_leased(broker: LeasingProcess) -> None:
    wait_until(lambda: broker.leases() == [] == broker.links())


def test_files_give_what_brokers_give_also_of_transactions(broker: LeasingProcess, cluster: Cluster) -> None:
    create(cluster, "mixed")
    for codec in ("none", "zstd"):
        fill(broker, "mixed", 1_500, **{"compression.type": codec})
    for committed in (False, True, False):
        producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "one", "linger.ms": 5})
        producer.init_transactions(30)
        producer.begin_transaction()
        for number in range(1_500):
            producer.produce("mixed", VALUE, b"%d" % number)
        # Between the records of the transaction, and behind it in segments of their own.
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
        assert lease["principal"] == "spark" and lease["segments"] == len(broker.links()) > 3
        assert under_lease.read_all().to_pylist() == expected
        wait_until_nothing_is_leased(broker)
    middle = rows(broker, "mixed", start=1_234, end=5_678)
    assert rows(broker, "mixed", start=1_234, end=5_678, lease=SPARK) == middle
    # Nothing undecided is leased to who reads what is committed.
    for read_committed in (True, False):
        held = ask(cluster, "mixed", read_committed=read_committed)
        undecided = Admin(cluster).offsets({TopicPartition("mixed", 0): -1}, read_committed=True)
        assert (held.files[-1].limit <= undecided[TopicPartition("mixed", 0)]) == read_committed
        LeaseRenewer(LeaseCredentials(*SPARK)).release([held])
    open_one.abort_transaction(30)


def ask(cluster: Cluster, topic: str, **options: Any) -> Lease:
    options = {"start": 0, "end": 2**62, "read_committed": True} | options
    duration_ms = options.pop("duration_ms", 60_000)
    credentials = options.pop("credentials", LeaseCredentials(*SPARK))
    held = LeaseClient(cluster, credentials, duration_ms=duration_ms).request(TopicPartition(topic, 0), **options)
    assert held is not None
    return held


def test_who_never_reads_holds_nothing(broker: LeasingProcess, cluster: Cluster) -> None:
    create(cluster, "unread")
    fill(broker, "unread", 2_500, **{"compression.type": "none"})
    unread = begin(broker, "unread", lease=SPARK)
    assert broker.leases()
    del unread
    wait_until_nothing_is_leased(broker)
    # The second partition is refused when the first is leased.
    Admin(cluster).create_partitions("unread", 2)
    with pytest.raises(OffsetsNotThere):
        begin(broker, "unread", end={1: 1}, lease=SPARK)
    wait_until_nothing_is_leased(broker)


def test_retention_and_deletion_leave_what_is_leased(broker: LeasingProcess, cluster: Cluster) -> None:
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
    # What had been deleted when the lease was granted is not in it, though the file has it.
    assert late.read_all().to_pylist() == expected[2_000:]
    Admin(cluster).delete_topic("forgotten")
    wait_until(lambda: not directory.exists())
    assert half.read_all().to_pylist() == expected
    wait_until_nothing_is_leased(broker)


@pytest.mark.tier("proof")
def test_compaction_does_not_swap_a_file_under_its_reader(broker: LeasingProcess, cluster: Cluster) -> None:
    create(cluster, "compacted", cleanup_policy="compact", min_compaction_lag_ms="3600000")
    fill(broker, "compacted", 5_000, keys=10, **{"compression.type": "none"})
    expected = rows(broker, "compacted")
    reading = begin(broker, "compacted", lease=SPARK)
    Admin(cluster).alter_configs(Resource(ResourceType.TOPIC, "compacted"), changes={"min.compaction.lag.ms": "0"})
    wait_until(lambda: len(rows(broker, "compacted")) < 2_000)

    assert reading.read_all().to_pylist() == expected

    # And what is left is leased as it is; the cleaner may just be at it again.
    wait_until(lambda: rows(broker, "compacted", lease=SPARK) == rows(broker, "compacted"))


def test_while_it_is_written_rolled_and_forgotten(broker: LeasingProcess, cluster: Cluster) -> None:
    """Values tell their offsets: what is read has no gap, and nothing is in another's place."""
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
                # Retention was quicker than the lease.
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


def earliest(cluster: Cluster, topic: str) -> int:
    partition = TopicPartition(topic, 0)
    return Admin(cluster).offsets({partition: EARLIEST})[partition]


def test_who_gets_a_lease_and_for_how_long(
    broker: LeasingProcess, cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    create(cluster, "secret")
    fill(broker, "secret", 2_500, **{"compression.type": "none"})
    for name, secret, why in (
        ("spark", "not-a-secret-of-spark", "401: unknown principal or wrong secret"),
        ("nobody", SPARK[1], "401: unknown principal or wrong secret"),
        (*OTHER, "403: other is not authorized to read topic 'secret'"),
    ):
        with pytest.raises(NoLease, match=why):
            ask(cluster, "secret", credentials=LeaseCredentials(name, secret))
    assert get(broker.http_port, "/v1/leases?topic=secret&partition=0", method="POST").status == 401
    with pytest.raises(NoLease, match="409: topic 'secret' was deleted and recreated"):
        ask(cluster, "secret", topic_id="AAAAAAAAAAAAAAAAAAAAAQ")
    assert not broker.links()
    # Without one the brokers give the same.
    expected = rows(broker, "secret")
    assert rows(broker, "secret", lease=OTHER) == expected
    assert "Reading from brokers instead of segment files" in caplog.text

    kept, left = ask(cluster, "secret", duration_ms=6_000), ask(cluster, "secret", duration_ms=6_000)
    renewer, others = LeaseRenewer(LeaseCredentials(*SPARK)), LeaseRenewer(LeaseCredentials("other", SPARK[1]))
    others.release([kept])
    assert Path(left.files[0].path).exists()

    def is_over() -> bool:
        renewer.renew_if_due(kept)
        return not Path(left.files[0].path).exists()

    wait_until(is_over)
    assert all(Path(one.path).exists() for one in kept.files)
    renewer.release([kept])
    wait_until_nothing_is_leased(broker)


def test_who_asked_and_died_holds_nothing_for_longer_than_was_asked(broker: LeasingProcess, cluster: Cluster) -> None:
    """Nobody is there for the answer: the lease is granted all the same, and ends by itself."""
    create(cluster, "unheard")
    fill(broker, "unheard", 2_500, **{"compression.type": "none"})
    headers = "".join(f"{name}: {text}\r\n" for name, text in LeaseCredentials(*SPARK).headers.items())
    path = "/v1/leases?topic=unheard&partition=0&duration_ms=6000"
    for _ in range(5):
        with socket.create_connection(("127.0.0.1", broker.http_port), timeout=10) as asker:
            asker.sendall(f"POST {path} HTTP/1.1\r\nHost: broker\r\n{headers}Content-Length: 0\r\n\r\n".encode())
    # One that is not answered may also never have been heard.
    wait_until(lambda: bool(broker.links()) or bool(broker.leases()))
    granted_at = time.monotonic()
    assert all(one["expires_in_ms"] <= 6_000 for one in broker.leases())
    wait_until_nothing_is_leased(broker)
    # What the broker was kept from doing is not its fault.
    assert time.monotonic() - granted_at < 6.0 + 30.0


def test_a_broker_that_is_killed(broker: LeasingProcess, cluster: Cluster) -> None:
    """Last, since it ends the leases of all."""
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
    # Its names are gone: the brokers give the rest.
    assert found + more.read_all().to_pylist() == expected
