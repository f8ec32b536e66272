"""A host of a group coordinator that does nothing by itself: its log is a list; the caller commits and moves time."""

from collections import deque
from collections.abc import Callable, Iterator
from random import Random
from uuid import UUID

from odradek.base.errors import ErrorCode
from odradek.core.groups.commands import Answer
from odradek.core.groups.coordinator import Command, GroupCoordinator
from odradek.core.groups.group_configs import GroupConfigs
from odradek.core.groups.outcome import Outcome, Written
from odradek.core.groups.records import GroupRecord, decode, encode_key, encode_value
from odradek.core.groups.refusals import refuse
from odradek.core.groups.settings import GroupSettings
from odradek.core.groups.topics import Topics
from odradek.records.batch import NO_PRODUCER_ID

Logged = tuple[bytes, bytes | None, int]
Marker = tuple[int, bool]


def uuids(seed: int = 1) -> Callable[[], UUID]:
    random = Random(seed)
    return lambda: UUID(int=random.getrandbits(128), version=4)


class Host:
    def __init__(
        self,
        settings: GroupSettings | None = None,
        *,
        new_uuid: Callable[[], UUID] | None = None,
        log: list[Logged | Marker] | None = None,
        now_ms: int = 0,
        topics: Topics | None = None,
        configs: GroupConfigs | None = None,
    ) -> None:
        self.settings = settings or GroupSettings()
        self._new_uuid = new_uuid or uuids()
        self._topics = topics
        self._configs = configs
        self.coordinator = GroupCoordinator(self.settings, self._new_uuid, topics, configs)
        self.now_ms = now_ms
        self.log: list[Logged | Marker] = list(log or ())
        self.committed = len(self.log)
        self.answers: dict[int, Answer] = {}
        self.appended: list[GroupRecord] = []
        self.failing: ErrorCode | None = None
        self._parked: deque[tuple[int, list[tuple[int, Answer]], Written | None]] = deque()
        self._tokens = 0
        self._commands: dict[int, Command] = {}
        self._load()

    def _load(self) -> None:
        self.coordinator.advance(self.committed)
        for offset, entry in enumerate(self.log):
            if len(entry) == 2:
                self.coordinator.replay_marker(entry[0], commits=entry[1], offset=offset)
            else:
                key, value, producer_id = entry
                self.coordinator.replay(decode(key, value), offset, self.now_ms, producer_id)
        for outcome in self.coordinator.loaded(self.now_ms):
            self.take(outcome)

    def failover(self, *, committed_only: bool = True) -> "Host":
        """Another host that leads the partition now, with the log as it is."""
        log = self.log[: self.committed] if committed_only else self.log
        return Host(
            self.settings,
            new_uuid=self._new_uuid,
            log=log,
            now_ms=self.now_ms,
            topics=self._topics,
            configs=self._configs,
        )

    # ---- what is asked

    def send(self, command: Command, token: int | None = None) -> int:
        self._tokens += 1
        chosen = self._tokens if token is None else token
        self._commands[chosen] = command
        self.take(self.coordinator.handle(command, chosen, self.now_ms))
        return chosen

    def ask(self, command: Command) -> Answer:
        """With everything committed, so that the answer is there, or has to wait for others."""
        token = self.send(command)
        self.commit()
        return self.answers[token]

    def pass_time(self, milliseconds: int) -> None:
        """Everything on the way happens when it is due."""
        end_ms = self.now_ms + milliseconds
        while (at_ms := self.coordinator.next_deadline_ms()) is not None and at_ms <= end_ms:
            self.now_ms = max(self.now_ms, at_ms)
            self.run_deadlines()
        self.now_ms = end_ms

    def run_deadlines(self) -> None:
        while (outcome := self.coordinator.pass_deadline(self.now_ms)) is not None:
            self.take(outcome)

    def end_transaction(self, producer_id: int, *, commits: bool) -> None:
        self.coordinator.replay_marker(producer_id, commits=commits, offset=len(self.log))
        self.log.append((producer_id, commits))
        self._parked.append((len(self.log), [], None))

    # ---- what it does

    def take(self, outcome: Outcome) -> None:
        if outcome.records and self.failing is not None:
            self._answer(outcome.answers)
            self._answer(
                [(token, refuse(self._commands[token], self.failing)) for token, _ in outcome.answers_when_committed]
            )
            if outcome.on_written is not None:
                self.take(self.coordinator.written(outcome.on_written, self.failing, self.now_ms))
            return
        producer_id = NO_PRODUCER_ID if outcome.producer is None else outcome.producer.id
        for record in outcome.records:
            self.appended.append(record)
            self.log.append((encode_key(record), encode_value(record), producer_id))
            if outcome.replays:
                self.coordinator.replay(record, len(self.log) - 1, self.now_ms, producer_id)
        self._answer(outcome.answers)
        if not outcome.records and not self._parked:
            self._answer(outcome.answers_when_committed)
        else:
            self._parked.append((len(self.log), outcome.answers_when_committed, outcome.on_written))

    def commit(self) -> None:
        while self._parked:
            end, answers, written = self._parked.popleft()
            self.committed = end
            self.coordinator.advance(end)
            self._answer(answers)
            if written is not None:
                self.take(self.coordinator.written(written, ErrorCode.none, self.now_ms))

    def _answer(self, answers: list[tuple[int, Answer]]) -> None:
        for token, answer in answers:
            assert token not in self.answers, f"{token} is answered twice: {self.answers[token]}, {answer}"
            self.answers[token] = answer

    def take_answers(self) -> Iterator[tuple[int, Answer]]:
        """Those given since the last time, forgotten then."""
        given, self.answers = self.answers, {}
        return iter(given.items())
