"""The clients of one run: producers, consumers, admin clients, and the final reader."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Final, Protocol

from odradek.base.ids import TopicPartition
from odradek.sim.clients.acks_one_producer import AcksOneProducer
from odradek.sim.clients.admin import Admin
from odradek.sim.clients.classic_member import ClassicMember
from odradek.sim.clients.cluster_client import LOWEST_VERSION, LOWEST_VERSION_WITH_EPOCHS, ClusterClient
from odradek.sim.clients.committed_reader import CommittedReader
from odradek.sim.clients.connection import RequestFailed
from odradek.sim.clients.consumer_member import ConsumerMember
from odradek.sim.clients.group_client import GroupClient
from odradek.sim.clients.inspector import Inspector
from odradek.sim.clients.isr_observer import IsrObserver
from odradek.sim.clients.log_dir_mover import LogDirMover
from odradek.sim.clients.malformed_producer import MalformedProducer
from odradek.sim.clients.offset_committer import OffsetCommitter
from odradek.sim.clients.producer import IN_FLIGHT_MAX, Producer
from odradek.sim.clients.reader import Reader
from odradek.sim.clients.reassignment_client import ReassignmentClient
from odradek.sim.clients.record_deleter import RecordDeleter
from odradek.sim.clients.security_admin import USERS, SecurityAdmin
from odradek.sim.clients.security_requests import TOPICS as SECURED_TOPICS
from odradek.sim.clients.topic_observer import TopicObserver
from odradek.sim.clients.transactional_producer import TransactionalProducer
from odradek.sim.clients.user_client import Stranger, UserClient
from odradek.sim.clients.voter_admin import VoterAdmin
from odradek.sim.computer import Ports
from odradek.sim.history import History
from odradek.sim.layout import CLIENT_PORT, Plan
from odradek.sim.secured_nodes import admin_login
from odradek.sim.socket_end import SlowReader
from odradek.sim.transaction_history import TransactionHistory
from odradek.sim.world import World

VERIFIER: Final = "verifier"
ACCOUNTS: Final = "accounts"
INSPECTOR: Final = "inspector"
_SLOW_TIMEOUT_SECONDS: Final = 15.0
_ADMIN_TOPICS: Final = {"admin1": ("alpha", "beta"), "admin2": ("gamma", "delta")}
ADMIN_TOPICS: Final = tuple(chain.from_iterable(_ADMIN_TOPICS.values()))

# Clients that return after `is_finishing` is set, by the prefix of their name.
_ENDING: Final = (
    "producer",
    "transactional-producer",
    "admin",
    "reassignment-client",
    "offset-committer",
    "member",
    "consumer",
    "record-deleter",
    "security-admin",
    "user",
)

Work = Callable[[ClusterClient], Awaitable[None]]


class _Finishing(Protocol):
    """A client that starts nothing new once `is_finishing` is set."""

    is_finishing: bool


class Workload:
    def __init__(
        self,
        world: World,
        plan: Plan,
        topic_configs: Mapping[str, str],
        log_dirs: Mapping[tuple[str, int], Sequence[str]],
        replication_factor: int = 1,
        *,
        has_records: bool = True,
        has_transactions: bool = False,
        admin_seconds: Sequence[float] = (0.2, 1.0),
        changes_voters: bool = False,
        has_groups: bool = False,
        has_slow_readers: bool = False,
        is_secured: bool = False,
    ) -> None:
        """`log_dirs` by the host and port of the broker; `has_records`: whether producers and consumers run."""
        self._world: Final = world
        self._plan: Final = plan
        self._bootstrap: Final = tuple((node.name, node.client_port) for node in plan.brokers)
        self._is_one_node: Final = len(plan.nodes) == 1
        self._topic_configs: Final = dict(topic_configs)
        self._replication_factor: Final = replication_factor
        self._admin_seconds: Final = admin_seconds
        self._random: Final = world.random("workload")
        self.history: Final = History()
        self.partitions: Final = [
            TopicPartition(f"orders{number}", index)
            for number in range(self._random.choice((1, 1, 2)))
            for index in range(self._random.choice((1, 2)))
        ]
        self._finishing: Final[list[_Finishing]] = []
        self._followers: Final[list[tuple[TopicPartition, Reader]]] = []
        self._inspector: Inspector | None = None
        # Clients that must return and have not yet.
        self._busy: Final[set[str]] = set()
        self._works: Final[dict[str, Work]] = {}
        self.transactions: Final = TransactionHistory()
        self.transactional_partitions: Final[list[TopicPartition]] = []
        self._transactional_producers: Final[list[TransactionalProducer]] = []
        if has_records:
            self._add_users_of_records(log_dirs)
        if has_slow_readers:
            self._add_slow_readers()
        self._groups: Final[list[str]] = []
        self._login: Final = admin_login() if is_secured else None
        if is_secured:
            self._add_users()
            return
        if has_groups:
            self._add_groups()
        if has_transactions:
            self._add_users_of_transactions()
            return
        if self.is_replicated:
            self._add_users_of_replicas()
            return
        for name, topics in _ADMIN_TOPICS.items():
            self._works[name] = self._administrator(topics)
        if changes_voters and plan.initial_controllers:
            self._works["admin-voters"] = self._voter_admin()

    def _add_users_of_records(self, log_dirs: Mapping[tuple[str, int], Sequence[str]]) -> None:
        for number, partition in enumerate(self.partitions):
            for copy in range(self._random.choice((1, 2, 2))):
                self._works[f"producer{number}{'ab'[copy]}"] = self._producer(partition)
            self._works[f"reader{number}"] = self._follower(partition)
        self._works["prober"] = self._prober(self._random.choice(self.partitions))
        if not self.is_replicated:
            self._works["malformed-producer"] = self._periodic(
                MalformedProducer, self._random.choice(self.partitions), 1.0
            )
        if any(len(dirs) > 1 for dirs in log_dirs.values()):
            self._works["log-dir-mover"] = self._log_dir_mover(log_dirs)

    def _add_slow_readers(self) -> None:
        """Consumers and followers; records are deleted before they have read them."""
        for number, partition in enumerate(self.partitions):
            self._works[f"slow-prober{number}"] = self._prober(partition, _SLOW_TIMEOUT_SECONDS)
            self._works[f"record-deleter{number}"] = self._record_deleter(partition)
            self._works[f"acks-one-producer{number}"] = self._periodic(AcksOneProducer, partition, 0.1)
        random = self._world.random("slow readers")
        for name in (*(node.name for node in self._plan.brokers), *self._works):
            # Producers would only become slower.
            if name.startswith(("node", "reader", "slow-prober")):
                self._world.network.slow_down(
                    name,
                    CLIENT_PORT,
                    SlowReader(
                        self._world.random(f"slow reader {name}"),
                        window_bytes=random.choice((200, 1000, 5000)),
                        mean_seconds=random.choice((0.001, 0.02, 0.1)),
                        stall_share=random.choice((0.0, 0.01, 0.03)),
                        stall_seconds_max=8.0,
                    ),
                )

    def _add_groups(self) -> None:
        for number in range(2):
            self._groups.append(f"simple{number}")
            self._works[f"offset-committer{number}"] = self._offset_committer(self._groups[-1])
        self._groups.append("team")
        for number in range(self._random.choice((2, 3))):
            self._works[f"member{number}"] = self._member(ClassicMember, "team")
        self._groups.append("crew")
        for number in range(self._random.choice((2, 3))):
            self._works[f"consumer{number}"] = self._member(ConsumerMember, "crew")

    def _add_users(self) -> None:
        """Clients that log in as users of a secured cluster, one that does not, and admin clients."""
        names = {f"user{number}{copy}": user for number, user in enumerate(USERS) for copy in "ab"[: 2 - number % 2]}
        hosts = [self._address_of(name) for name in (*names, VERIFIER)]
        for number in range(self._random.choice((1, 2))):
            self._works[f"security-admin{number}"] = self._security_admin(hosts)
        for name, user in names.items():
            self._works[name] = self._user(name, user)
        self._works["stranger"] = self._stranger()

    def _address_of(self, name: str) -> str:
        if name not in self._world.computers:
            self._world.add_computer(name)
        return self._world.network.address_of(name)

    def _add_users_of_replicas(self) -> None:
        self._works["reassignment-client"] = self._reassignment_client()
        for number, partition in enumerate(self.partitions):
            self._works[f"isr-observer{number}"] = self._periodic(IsrObserver, partition, 0.3)
        if self._random.random() < 0.5:
            self._works["acks-one-producer"] = self._periodic(
                AcksOneProducer, self._random.choice(self.partitions), 0.2
            )
        if self._random.random() < 0.5:
            self._works["record-deleter"] = self._record_deleter(self._random.choice(self.partitions))

    def _add_users_of_transactions(self) -> None:
        self.transactional_partitions.extend(TopicPartition(ACCOUNTS, index) for index in range(3))
        for number in range(self._random.choice((1, 2, 3))):
            fenced_backoff_seconds = self._random.choice((0.3, 1.0))
            for copy in range(self._random.choice((1, 2))):
                self._works[f"transactional-producer{number}{'ab'[copy]}"] = self._transactional_producer(
                    f"id{number}", fenced_backoff_seconds
                )
        for partition in self.transactional_partitions:
            self._works[f"reader{partition.partition}"] = self._committed_reader(partition)
        self._works["reassignment-client"] = self._reassignment_client(self.transactional_partitions)

    @property
    def is_replicated(self) -> bool:
        return self._replication_factor > 1

    @property
    def clients(self) -> list[str]:
        return list(self._works)

    # ---- from begin to end

    def create_topics(self) -> None:
        async def work(client: ClusterClient) -> None:
            admin = Admin(client, self.history, is_single_node=self._is_one_node)
            for topic in dict.fromkeys(partition.topic for partition in self.partitions):
                count = sum(partition.topic == topic for partition in self.partitions)
                await admin.create(topic, count, self._topic_configs, self._replication_factor)
            if self.transactional_partitions:
                count = len(self.transactional_partitions)
                await admin.create(ACCOUNTS, count, self._topic_configs, self._replication_factor)
            if self._login is not None:
                for topic in SECURED_TOPICS:
                    await admin.create(topic, 1, self._topic_configs, self._replication_factor)
                await SecurityAdmin(client, self.history.security, ()).create_users()

        self._run("setup", work, ends=True)

    def begin(self) -> None:
        for name, work in self._works.items():
            self._run(name, work, ends=name.startswith(_ENDING))

    def finish(self) -> None:
        """Lets all clients complete what they have started."""
        for client in self._finishing:
            client.is_finishing = True

    @property
    def is_finished(self) -> bool:
        return not self._busy

    @property
    def unfinished(self) -> list[str]:
        return sorted(self._busy)

    @property
    def behind(self) -> list[str]:
        """Readers that have not read all acknowledged records."""
        ends = dict.fromkeys(self.partitions, 0)
        for send in self.history.sends:
            if send.ended is not None and send.offset >= 0:
                ends[send.partition] = max(ends[send.partition], send.offset + len(send.values))
        return [str(partition) for partition, reader in self._followers if reader.position < ends[partition]]

    def inspect(self) -> None:
        """Waits until the cluster is healthy; `problem` describes what is missing."""

        async def work(client: ClusterClient) -> None:
            self._inspector = Inspector(client, self._plan, self._replication_factor)
            await self._inspector.wait_until_healthy()

        self._run(INSPECTOR, work, ends=True)

    @property
    def problem(self) -> str:
        return "no broker could be queried" if self._inspector is None else self._inspector.problem

    def verify(self) -> None:
        """Reads all records once more and describes every topic."""

        async def work(client: ClusterClient) -> None:
            for partition in self.transactional_partitions:
                await _retry(client, CommittedReader(client, self.transactions, partition).read_all)
            for producer in self._transactional_producers:
                name = producer.instance
                self.transactions.group_offsets[name] = await producer.group_offset(client)
            for partition in self.partitions:
                await _retry(client, Reader(client, self.history, partition, uses_session=False).read_all)
            for group in self._groups:
                groups = GroupClient(client, self.history, group)
                for partition in self.partitions:
                    await _retry(
                        client,
                        partial(groups.fetch_committed_offset, partition),
                    )
            observer = TopicObserver(client, self.history, is_current=True)
            for topic in () if self.is_replicated or self._login else ADMIN_TOPICS:
                await _retry(client, partial(observer.observe, topic))
            if self._login is not None:
                await SecurityAdmin(client, self.history.security, ()).create_users()
                for user in USERS:
                    await _retry(client, self._user_client(client, VERIFIER, user).check_everywhere)

        self._run(VERIFIER, work, ends=True)

    def _run(self, name: str, work: Work, *, ends: bool) -> None:
        computer = self._world.computers.get(name) or self._world.add_computer(name)
        if ends:
            self._busy.add(name)
        lowest_versions = LOWEST_VERSION_WITH_EPOCHS if self.is_replicated else LOWEST_VERSION

        async def program(ports: Ports) -> int:
            await work(ClusterClient(ports, self._bootstrap, self._world.trace, lowest_versions, self._login))
            self._busy.discard(name)
            return 0

        computer.run(program)

    # ---- what each of them does

    def _producer(self, partition: TopicPartition) -> Work:
        in_flight_max = self._random.choice((1, 2, IN_FLIGHT_MAX))
        sends_per_second = self._random.choice((2.0, 5.0, 10.0))

        async def work(client: ClusterClient) -> None:
            producer = Producer(
                client, self.history, partition, sends_per_second=sends_per_second, in_flight_max=in_flight_max
            )
            self._finishing.append(producer)
            await producer.run()

        return work

    def _follower(self, partition: TopicPartition) -> Work:
        uses_session = self._random.random() < 0.5

        async def work(client: ClusterClient) -> None:
            reader = Reader(client, self.history, partition, uses_session=uses_session)
            self._followers.append((partition, reader))
            await reader.follow()

        return work

    def _prober(self, partition: TopicPartition, timeout_seconds: float | None = None) -> Work:
        async def work(client: ClusterClient) -> None:
            if timeout_seconds is not None:
                client.timeout_seconds = timeout_seconds
            await Reader(client, self.history, partition, uses_session=False).probe(0.5)

        return work

    def _periodic(
        self,
        kind: type[MalformedProducer | IsrObserver | AcksOneProducer],
        partition: TopicPartition,
        interval_seconds: float,
    ) -> Work:
        async def work(client: ClusterClient) -> None:
            await kind(client, self.history, partition).run(interval_seconds)

        return work

    def _log_dir_mover(self, log_dirs: Mapping[tuple[str, int], Sequence[str]]) -> Work:
        async def work(client: ClusterClient) -> None:
            await LogDirMover(client, self.partitions, log_dirs).run(1.0)

        return work

    def _transactional_producer(self, transactional_id: str, fenced_backoff_seconds: float) -> Work:
        increments_epoch = self._random.random() < 0.6

        async def work(client: ClusterClient) -> None:
            producer = TransactionalProducer(
                client,
                self.transactions,
                transactional_id,
                self.transactional_partitions,
                increments_epoch=increments_epoch,
                fenced_backoff_seconds=fenced_backoff_seconds,
            )
            self._transactional_producers.append(producer)
            self._finishing.append(producer)
            await producer.run()

        return work

    def _committed_reader(self, partition: TopicPartition) -> Work:
        async def work(client: ClusterClient) -> None:
            await CommittedReader(client, self.transactions, partition).follow()

        return work

    def _reassignment_client(self, partitions: Sequence[TopicPartition] = ()) -> Work:
        interval_seconds = self._random.choice((0.3, 1.0, 3.0))
        broker_ids = [node.node_id for node in self._plan.brokers]

        async def work(client: ClusterClient) -> None:
            reassignment_client = ReassignmentClient(
                client, partitions or self.partitions, broker_ids, self._replication_factor
            )
            self._finishing.append(reassignment_client)
            await reassignment_client.run(interval_seconds)

        return work

    def _offset_committer(self, group: str) -> Work:
        partition = self._random.choice(self.partitions)
        interval_seconds = self._random.choice((0.05, 0.2))

        async def work(client: ClusterClient) -> None:
            offset_committer = OffsetCommitter(client, self.history, group, partition)
            self._finishing.append(offset_committer)
            await offset_committer.run(interval_seconds)

        return work

    def _member(self, kind: type[ClassicMember | ConsumerMember], group: str) -> Work:
        async def work(client: ClusterClient) -> None:
            member = kind(client, self.history, group, self.partitions)
            self._finishing.append(member)
            await member.run()

        return work

    def _record_deleter(self, partition: TopicPartition) -> Work:
        async def work(client: ClusterClient) -> None:
            record_deleter = RecordDeleter(client, self.history, partition)
            self._finishing.append(record_deleter)
            await record_deleter.run(1.0)

        return work

    def _security_admin(self, hosts: Sequence[str]) -> Work:
        interval_seconds = self._random.choice(self._admin_seconds)

        async def work(client: ClusterClient) -> None:
            security_admin = SecurityAdmin(client, self.history.security, hosts)
            self._finishing.append(security_admin)
            await security_admin.run(interval_seconds)

        return work

    def _user(self, name: str, user: str) -> Work:
        async def work(client: ClusterClient) -> None:
            user_client = self._user_client(client, name, user)
            self._finishing.append(user_client)
            await user_client.run()

        return work

    def _user_client(self, client: ClusterClient, name: str, user: str) -> UserClient:
        return UserClient(client, self.history.security, user, self._address_of(name), self._bootstrap)

    def _stranger(self) -> Work:
        async def work(client: ClusterClient) -> None:
            await Stranger(client, self.history.security, self._bootstrap).run(1.0)

        return work

    def _voter_admin(self) -> Work:
        async def work(client: ClusterClient) -> None:
            voter_admin = VoterAdmin(client, self._plan.initial_controllers)
            self._finishing.append(voter_admin)
            await voter_admin.run(1.0)

        return work

    def _administrator(self, topics: Sequence[str]) -> Work:
        interval_seconds = self._random.choice(self._admin_seconds)

        async def work(client: ClusterClient) -> None:
            admin = Admin(client, self.history, is_single_node=self._is_one_node)
            self._finishing.append(admin)
            observer = TopicObserver(client, self.history, is_current=self._is_one_node)
            await admin.change_topics(topics, interval_seconds, observer)

        return work


async def _retry(client: ClusterClient, work: Callable[[], Awaitable[object]]) -> None:
    while True:
        try:
            await work()
            return
        except RequestFailed as failure:
            client.note(f"tries again: {failure}")
            await client.back_off()
