"""Parses the options of Spark's Kafka connector. Pure.

Irrelevant options of the connector are ignored, so that a query only has to change its format. Options that would
change the result but are not supported are errors.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import odradek
from odradek.base.ids import TopicPartition
from odradek.client.security import NOTHING, Security
from odradek.pipelines.spark.errors import OptionError
from odradek.pipelines.spark.exactly_once.names import task_id_prefix
from odradek.pipelines.spark.security_options import security_options

EARLIEST: Final = -2
LATEST: Final = -1

DEFAULT_DECISION_TOPIC: Final = "odradek-decisions"

_SUBSCRIPTIONS: Final = ("assign", "subscribe", "subscribepattern")
_DEFAULT_TIMEOUT_S: Final = 30.0
_MAX_TRIGGER_DELAY_S: Final = 15 * 60.0

# The connector and this source set these themselves.
_SET_BY_SPARK: Final = {
    "kafka.auto.offset.reset": "Use startingOffsets",
    "kafka.key.deserializer": "Keys are bytes: cast them in the query",
    "kafka.value.deserializer": "Values are bytes: cast them in the query",
    "kafka.key.serializer": "Keys are bytes or strings",
    "kafka.value.serializer": "Values are bytes or strings",
    "kafka.enable.auto.commit": "The checkpoint stores the offsets. Set kafka.group.id to publish them",
    "kafka.interceptor.classes": "Java classes cannot run in this source",
}


@dataclass(frozen=True, slots=True)
class Bound:
    """Where to start or end: a default and values by partition, which are offsets or timestamps."""

    default: int | None
    by_partition: Mapping[TopicPartition, int]
    is_timestamp: bool = False
    missing_is_latest: bool = False
    """Whether a timestamp after the last record means the end of the partition instead of an error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions:
    """How to connect to the brokers."""

    bootstrap_servers: str
    client_id: str = "odradek-spark"
    timeout_s: float = _DEFAULT_TIMEOUT_S
    security: Security = NOTHING
    version: str = odradek.__version__
    """The driver's version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    client: ClientOptions
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    assigned: tuple[TopicPartition, ...] = ()
    """Exactly one of topics, pattern and assigned is set."""
    start: Bound
    end: Bound
    fail_on_data_loss: bool = True
    read_committed: bool = False
    tasks_min: int | None = None
    records_per_task_max: int | None = None
    offsets_per_trigger_max: int | None = None
    offsets_per_trigger_min: int | None = None
    trigger_delay_s_max: float = _MAX_TRIGGER_DELAY_S
    group_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactlyOnceOptions:
    """An exactly-once sink. Its name must stay the same."""

    client: ClientOptions
    sink: str
    decision_topic: str = DEFAULT_DECISION_TOPIC
    timeout_ms: int | None = None
    """None: the brokers' maximum."""
    in_two_phases: bool = True
    """Transactions then have no timeout, if the brokers allow it."""
    query: str | None = None
    batch: int | None = None
    """The query and batch of a batch job. None: the tasks get them from Spark."""


def client_options(options: Mapping[str, str]) -> ClientOptions:
    """Option names must be in lower case, as for all functions here."""
    servers = options.get("kafka.bootstrap.servers")
    if not servers:
        raise OptionError("Option kafka.bootstrap.servers is missing. Set it to the host:port of one or more brokers.")
    for name, instead in _SET_BY_SPARK.items():
        if name in options:
            raise OptionError(f"Option {name} is not supported. {instead}.")
    timeout_ms = _whole(options, "kafka.request.timeout.ms")
    return ClientOptions(
        bootstrap_servers=servers,
        client_id=options.get("kafka.client.id", "odradek-spark"),
        timeout_s=_DEFAULT_TIMEOUT_S if timeout_ms is None else timeout_ms / 1000,
        security=security_options(options),
    )


def read_options(options: Mapping[str, str], *, streaming: bool) -> ReadOptions:
    given = [name for name in _SUBSCRIPTIONS if options.get(name)]
    if len(given) != 1:
        raise OptionError("Set exactly one of the options subscribe, subscribePattern and assign.")
    isolation = options.get("kafka.isolation.level", "read_uncommitted")
    if isolation not in ("read_committed", "read_uncommitted"):
        raise OptionError(
            f"Option kafka.isolation.level: {isolation!r} is invalid. Use read_committed or read_uncommitted."
        )
    limits = {name: _whole(options, name) for name in ("maxoffsetspertrigger", "minoffsetspertrigger")}
    most, least = limits["maxoffsetspertrigger"], limits["minoffsetspertrigger"]
    if most is not None and least is not None and least > most:
        raise OptionError(f"Option minOffsetsPerTrigger ({least}) is greater than maxOffsetsPerTrigger ({most}).")
    return ReadOptions(
        client=client_options(options),
        topics=_topics(options) if given == ["subscribe"] else (),
        pattern=_pattern(options) if given == ["subscribepattern"] else None,
        assigned=_parse_assignment(options) if given == ["assign"] else (),
        start=_start(options, streaming),
        end=Bound(LATEST, {}) if streaming else _end(options),
        fail_on_data_loss=_flag(options, "failondataloss", True),
        read_committed=isolation == "read_committed",
        tasks_min=_whole(options, "minpartitions"),
        records_per_task_max=_whole(options, "maxrecordsperpartition"),
        offsets_per_trigger_max=most,
        offsets_per_trigger_min=least,
        trigger_delay_s_max=_duration_s(options, "maxtriggerdelay", _MAX_TRIGGER_DELAY_S),
        group_id=options.get("kafka.group.id"),
    )


def should_push_filters(options: Mapping[str, str]) -> bool:
    return _flag(options, "pushdown", False)


def exactly_once_options(options: Mapping[str, str], *, streaming: bool) -> ExactlyOnceOptions | None:
    """Return None for an at-least-once sink."""
    sink = options.get("kafka.transactional.id")
    if sink is None:
        return None
    if not sink or task_id_prefix("") in sink:
        # It could be confused with a task of another sink.
        raise OptionError(
            f"Option kafka.transactional.id: {sink!r} is invalid. It must not be empty or contain '.task.'."
        )
    query, batch = options.get("queryid"), _whole(options, "batchid", least=0)
    if streaming and batch is not None:
        # All batches would have the same number.
        raise OptionError(
            "Option batchId is not allowed in streaming queries, because Spark numbers the batches. Remove it."
        )
    if (query is None) != (batch is None):
        # With the number alone, batches of a new checkpoint would be skipped as already written.
        raise OptionError("Set queryId and batchId together, with a new queryId for each new checkpoint.")
    return ExactlyOnceOptions(
        client=client_options(options),
        sink=sink,
        decision_topic=options.get("decisiontopic", DEFAULT_DECISION_TOPIC),
        timeout_ms=_whole(options, "kafka.transaction.timeout.ms"),
        in_two_phases=_flag(options, "kafka.transaction.two.phase.commit.enable", True),
        query=query,
        batch=batch,
    )


def includes_headers(options: Mapping[str, str]) -> bool:
    return _flag(options, "includeheaders", False)


def _topics(options: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for part in options["subscribe"].split(",") if (name := part.strip())))


def _pattern(options: Mapping[str, str]) -> str:
    pattern = options["subscribepattern"]
    try:
        re.compile(pattern)
    except re.error as error:
        raise OptionError(
            f"Option subscribePattern: {pattern!r} is not a valid regular expression ({error})."
        ) from None
    return pattern


def _parse_assignment(options: Mapping[str, str]) -> tuple[TopicPartition, ...]:
    form = _json(options, "assign")
    try:
        return tuple(sorted({TopicPartition(topic, int(one)) for topic, ones in form.items() for one in ones}))
    except (TypeError, ValueError):
        raise OptionError('Option assign must have the form {"topic": [0, 1]}.') from None


def _start(options: Mapping[str, str], streaming: bool) -> Bound:
    missing_is_latest = options.get("startingoffsetsbytimestampstrategy", "error").lower() == "latest"
    by_time = _time_bound(options, "startingtimestamp", "startingoffsetsbytimestamp", missing_is_latest)
    if by_time is not None:
        return by_time
    bound = _offset_bound(options, "startingoffsets", "latest" if streaming else "earliest")
    if not streaming and (bound.default == LATEST or LATEST in bound.by_partition.values()):
        raise OptionError("Option startingOffsets: a batch query cannot start at latest. Use earliest or offsets.")
    return bound


def _end(options: Mapping[str, str]) -> Bound:
    by_time = _time_bound(options, "endingtimestamp", "endingoffsetsbytimestamp", True)
    if by_time is not None:
        return by_time
    bound = _offset_bound(options, "endingoffsets", "latest")
    if bound.default == EARLIEST or EARLIEST in bound.by_partition.values():
        raise OptionError("Option endingOffsets: a query cannot end at earliest. Use latest or offsets.")
    return bound


def _offset_bound(options: Mapping[str, str], name: str, default: str) -> Bound:
    text = options.get(name, default).strip()
    word = text.lower()
    if word in ("earliest", "latest"):
        return Bound(EARLIEST if word == "earliest" else LATEST, {})
    return Bound(None, _by_partition(options, name))


def _time_bound(options: Mapping[str, str], name: str, by_partition: str, missing_is_latest: bool) -> Bound | None:
    """A common timestamp takes precedence over timestamps by partition, and both over offsets."""
    timestamp_ms = _whole(options, name, least=0)
    if timestamp_ms is not None:
        return Bound(timestamp_ms, {}, is_timestamp=True, missing_is_latest=missing_is_latest)
    if by_partition not in options:
        return None
    return Bound(None, _by_partition(options, by_partition), is_timestamp=True, missing_is_latest=missing_is_latest)


def _by_partition(options: Mapping[str, str], name: str) -> dict[TopicPartition, int]:
    form = _json(options, name)
    try:
        return {TopicPartition(topic, int(n)): int(value) for topic, ones in form.items() for n, value in ones.items()}
    except (AttributeError, TypeError, ValueError):
        raise OptionError(f'Option {name} must have the form {{"topic": {{"0": 23, "1": -2}}}}.') from None


def _json(options: Mapping[str, str], name: str) -> dict[str, Any]:
    try:
        form = json.loads(options[name])
    except ValueError as error:
        raise OptionError(f"Option {name}: {options[name]!r} is not valid JSON ({error}).") from None
    if not isinstance(form, dict):
        raise OptionError(f"Option {name}: {options[name]!r} is not a JSON object.")
    return form


def _whole(options: Mapping[str, str], name: str, *, least: int = 1) -> int | None:
    text = options.get(name)
    if text is None:
        return None
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if number < least:
        raise OptionError(f"Option {name}: {text!r} is not an integer of at least {least}.")
    return number


def _flag(options: Mapping[str, str], name: str, default: bool) -> bool:
    text = options.get(name, str(default)).strip().lower()
    if text not in ("true", "false"):
        raise OptionError(f"Option {name}: {text!r} is invalid. Use true or false.")
    return text == "true"


_UNITS_S: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


def _duration_s(options: Mapping[str, str], name: str, default: float) -> float:
    text = options.get(name)
    if text is None:
        return default
    found = re.fullmatch(r"\s*(\d+)\s*(ms|s|m|min|h|d)\s*", text.lower())
    if found is None:
        raise OptionError(f"Option {name}: {text!r} is not a duration such as 15m.")
    return int(found[1]) * _UNITS_S[found[2]]
