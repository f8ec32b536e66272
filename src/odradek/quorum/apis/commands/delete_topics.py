"""DeleteTopics, versions 1 to 6: by name, and from version 6 on by id."""

from collections import Counter
from uuid import UUID

from odradek.base.errors import ErrorCode, KafkaError
from odradek.core.controller.commands import ControllerCommands
from odradek.core.controller.decision import Decision
from odradek.quorum.apis.commands.answers import NO_THROTTLE, code_of, message_of
from odradek.wire.schemas import Message, Schema

_FIRST_VERSION_WITH_ITS_OWN_CODE = 3


def handle(request: Message, messages: Schema, controller: ControllerCommands, now: float) -> Decision[Message]:
    if not controller.allows_topic_deletion:
        code = ErrorCode.topic_deletion_disabled
        if messages.version < _FIRST_VERSION_WITH_ITS_OWN_CODE:
            code = ErrorCode.invalid_request
        raise KafkaError(code, "Topic deletion is disabled.")
    answer = _Answer(messages)
    wanted = _wanted_topics(request, controller, answer)
    decision = controller.delete_topics(wanted)
    for topic_id, error in decision.response.items():
        answer.add(wanted[topic_id], topic_id, error)
    return decision.answered(answer.message())


def refuse(request: Message, messages: Schema, error: KafkaError) -> Message:
    answer = _Answer(messages)
    for name, topic_id in _named(request):
        answer.add(name, topic_id, KafkaError(error.code))
    return answer.message()


class _Answer:
    def __init__(self, messages: Schema) -> None:
        self._messages = messages
        self._results: list[Message] = []

    def add(self, name: str | None, topic_id: UUID | None, error: KafkaError | None) -> None:
        self._results.append(
            self._messages.new(
                "DeletableTopicResult",
                name=name,
                topic_id=topic_id,
                error_code=code_of(error),
                error_message=message_of(error),
            )
        )

    def refuse(self, name: str | None, topic_id: UUID | None, reason: str) -> None:
        self.add(name, topic_id, KafkaError(ErrorCode.invalid_request, reason))

    def message(self) -> Message:
        return self._messages.new("DeleteTopicsResponse", throttle_time=NO_THROTTLE, responses=tuple(self._results))


def _named(request: Message) -> list[tuple[str | None, UUID | None]]:
    if hasattr(request, "topic_names"):
        return [(name, None) for name in request.topic_names]
    return [(topic.name, topic.topic_id) for topic in request.topics]


def _wanted_topics(request: Message, controller: ControllerCommands, answer: _Answer) -> dict[UUID, str]:
    """Ids and names of the topics that are there and asked for once; the rest is answered at once."""
    names: Counter[str] = Counter()
    ids: Counter[UUID] = Counter()
    for name, topic_id in _named(request):
        if name is not None and topic_id is not None:
            answer.refuse(name, topic_id, "You may not specify both topic name and topic id.")
        elif name is not None:
            names[name] += 1
        elif topic_id is not None:
            ids[topic_id] += 1
        else:
            answer.refuse(None, None, "Neither topic name nor id were specified.")
    wanted: dict[UUID, str] = {}
    for topic_id, count in ids.items():
        known_name = controller.find_topic_name(topic_id)
        if count > 1:
            answer.refuse(None, topic_id, "Duplicate topic id.")
        elif known_name is None:
            unknown = KafkaError(ErrorCode.unknown_topic_id, "This server does not host this topic ID.")
            answer.add(None, topic_id, unknown)
        else:
            wanted[topic_id] = known_name
    for name, count in names.items():
        known_id = controller.find_topic_id(name)
        if count > 1:
            answer.refuse(name, None, "Duplicate topic name.")
        elif known_id is None:
            reason = "This server does not host this topic-partition."
            answer.add(name, None, KafkaError(ErrorCode.unknown_topic_or_partition, reason))
        elif known_id in ids:
            wanted.pop(known_id, None)
            answer.refuse(name, known_id, "The provided topic name maps to an ID that was already supplied.")
        else:
            wanted[known_id] = name
    return wanted
