"""Runs a group coordinator on a list as its log; the test commits records and advances the time."""

from collections import deque
from collections.abc import Callable, Iterator
from random import Random
from uuid import UUID

from odradek.base.errors import ErrorCode
from odradek.broker.coordinators.loading_program import LoadedMarker, LoadedRecord, Window
from odradek.core.groups.commands import DescribedConsumerGroup, DescribedGroup, Response
from odradek.core.groups.coordinator import Command, GroupCoordinator
from odradek.core.groups.coordinator_result import CoordinatorResult, WriteEvent
from odradek.core.groups.error_responses import error_response
from odradek.core.groups.group_configs import GroupConfigs
from odradek.core.groups.records import GroupRecord, decode, encode_key, encode_value
from odradek.core.groups.settings import GroupSettings
from odradek.core.groups.topics import Topics
from odradek.records.batch import NO_PRODUCER_ID

Logged = tuple[bytes, bytes | None, int]
Marker = tuple[int, bool]


def uuids(seed: int = 1) -> Callable[[], UUID]:
    random = Random(seed)
    return lambda: UUID(int=random.getrandbits(128), version=4)


def _with_sorted_members(described: DescribedGroup | DescribedConsumerGroup) -> object:
    return described._replace(members=()), sorted(described.members)


class CoordinatorHarness:
    def __init__(
        self,
        settings: GroupSettings | None = None,
        *,
        new_uuid: Callable[[], UUID] | None = None,
        log: list[Logged | Marker] | None = None,
        now_ms: int = 0,
        topics: Topics | None = None,
        configs: GroupConfigs | None = None,
        loads_all: bool = False,
    ) -> None:
        """`loads_all`: also records that a later record of their key replaces, which a broker skips."""
        self.settings = settings or GroupSettings()
        self._new_uuid = new_uuid or uuids()
        self._topics = topics
        self._configs = configs
        self._loads_all = loads_all
        self.coordinator = GroupCoordinator(self.settings, self._new_uuid, topics, configs)
        self.now_ms = now_ms
        self.log: list[Logged | Marker] = list(log or ())
        self.committed = len(self.log)
        self.responses: dict[int, Response] = {}
        self.appended: list[GroupRecord] = []
        self.failing: ErrorCode | None = None
        self._pending_writes: deque[tuple[int, list[tuple[int, Response]], WriteEvent | None]] = deque()
        self._tokens = 0
        self._commands: dict[int, Command] = {}
        self._load()

    def _load(self) -> None:
        self.coordinator.advance_high_watermark(self.committed)
        for entry in self._entries_to_load():
            if isinstance(entry, LoadedMarker):
                self.coordinator.replay_marker(entry.producer_id, commits=entry.commits, offset=entry.offset)
            else:
                assert entry.key is not None
                record = decode(entry.key, entry.value)
                self.coordinator.replay(record, entry.offset, self.now_ms, entry.producer_id)
        for result in self.coordinator.on_loaded(self.now_ms):
            self.take(result)

    def _entries_to_load(self) -> Iterator[LoadedRecord | LoadedMarker]:
        window = Window()
        for offset, logged in enumerate(self.log):
            if len(logged) == 2:
                marker = LoadedMarker(offset, *logged)
                window.add_marker(marker)
            else:
                key, value, producer_id = logged
                window.add(LoadedRecord(offset, producer_id, key, value))
            if self._loads_all:
                yield from window.drain()
        yield from window.drain()

    def failover(self, *, committed_only: bool = True) -> "CoordinatorHarness":
        """A new coordinator that has loaded the same log. Skipped records make no visible difference."""
        successor = self._load_again(self._new_uuid, self._loads_all, committed_only)
        twin = self._load_again(uuids(), not self._loads_all, committed_only)
        assert successor.visible_state() == twin.visible_state()
        return successor

    def _load_again(self, new_uuid: Callable[[], UUID], loads_all: bool, committed_only: bool) -> "CoordinatorHarness":
        return CoordinatorHarness(
            self.settings,
            new_uuid=new_uuid,
            log=self.log[: self.committed] if committed_only else self.log,
            now_ms=self.now_ms,
            topics=self._topics,
            configs=self._configs,
            loads_all=loads_all,
        )

    def visible_state(self) -> dict[str, object]:
        """What clients can learn about each group, in no particular order of members."""
        coordinator = self.coordinator
        store = coordinator._store
        found: dict[str, object] = {}
        for listed in coordinator.list_groups():
            (classic,) = coordinator.describe_groups([listed.group_id], 6)
            (consumer,) = coordinator.describe_consumer_groups([listed.group_id])
            offsets = store.all_latest(listed.group_id), sorted(store.all_pending(listed.group_id))
            found[listed.group_id] = listed, *map(_with_sorted_members, (classic, consumer)), offsets
        return found

    # ---- commands

    def send(self, command: Command, token: int | None = None) -> int:
        self._tokens += 1
        chosen = self._tokens if token is None else token
        self._commands[chosen] = command
        self.take(self.coordinator.handle(command, chosen, self.now_ms))
        return chosen

    def execute(self, command: Command) -> Response:
        """Commits everything, so that the response is complete unless it waits for other members."""
        token = self.send(command)
        self.commit()
        return self.responses[token]

    def pass_time(self, milliseconds: int) -> None:
        """Everything on the way happens when it is due."""
        end_ms = self.now_ms + milliseconds
        while (at_ms := self.coordinator.next_deadline_ms()) is not None and at_ms <= end_ms:
            self.now_ms = max(self.now_ms, at_ms)
            self.run_deadlines()
        self.now_ms = end_ms

    def run_deadlines(self) -> None:
        while (result := self.coordinator.expire_deadline(self.now_ms)) is not None:
            self.take(result)

    def end_transaction(self, producer_id: int, *, commits: bool) -> None:
        self.coordinator.replay_marker(producer_id, commits=commits, offset=len(self.log))
        self.log.append((producer_id, commits))
        self._pending_writes.append((len(self.log), [], None))

    # ---- results

    def take(self, result: CoordinatorResult) -> None:
        if result.records and self.failing is not None:
            self._record_responses(result.responses)
            self._record_responses(
                [
                    (token, error_response(self._commands[token], self.failing))
                    for token, _ in result.responses_after_commit
                ]
            )
            if result.write_event is not None:
                self.take(self.coordinator.on_written(result.write_event, self.failing, self.now_ms))
            return
        producer_id = NO_PRODUCER_ID if result.producer is None else result.producer.id
        for record in result.records:
            self.appended.append(record)
            self.log.append((encode_key(record), encode_value(record), producer_id))
            if result.replays:
                self.coordinator.replay(record, len(self.log) - 1, self.now_ms, producer_id)
        self._record_responses(result.responses)
        if not result.records and not self._pending_writes:
            self._record_responses(result.responses_after_commit)
        else:
            self._pending_writes.append((len(self.log), result.responses_after_commit, result.write_event))

    def commit(self) -> None:
        while self._pending_writes:
            end, responses, written = self._pending_writes.popleft()
            self.committed = end
            self.coordinator.advance_high_watermark(end)
            self._record_responses(responses)
            if written is not None:
                self.take(self.coordinator.on_written(written, ErrorCode.none, self.now_ms))

    def _record_responses(self, responses: list[tuple[int, Response]]) -> None:
        for token, response in responses:
            assert token not in self.responses, f"{token} has two responses: {self.responses[token]}, {response}"
            self.responses[token] = response

    def drain_responses(self) -> Iterator[tuple[int, Response]]:
        """Returns the responses since the last call."""
        given, self.responses = self.responses, {}
        return iter(given.items())
