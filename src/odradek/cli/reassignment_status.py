"""Shows the progress of ongoing reassignments: a table with an estimate, or a progress bar until they complete."""

import time
from typing import Any, Final

from odradek.base.ids import TopicPartition
from odradek.client.cluster import Cluster
from odradek.client.log_dirs import sizes_on
from odradek.client.reassignment_progress import Progress, ProgressMeter, ReassignmentState, state_of
from odradek.client.reassignments import Reassignments
from odradek.text.amounts import format_bytes
from odradek.text.output import print_json, print_table
from odradek.text.progress import gauge
from odradek.text.terminal import say
from odradek.text.times import format_span

NO_REASSIGNMENTS: Final = "No reassignments are in progress."

_SAMPLING_INTERVAL_S: Final = 1.0
# How often --watch prints a line if there is no terminal for a progress bar.
_REPORT_INTERVAL_S: Final = 10.0


def show_status(cluster: Cluster, *, watch: bool, as_json: bool) -> bool:
    """Show the progress and return whether no reassignment is in progress any more."""
    meter = ProgressMeter()
    progress = meter.sample(_states(cluster), time.monotonic())
    if watch:
        _watch(cluster, meter, progress, as_json)
        return True
    if progress.states:
        # A rate takes two samples; partitions that complete in between count as complete.
        time.sleep(_SAMPLING_INTERVAL_S)
        progress = meter.sample(_states(cluster), time.monotonic())
    if as_json:
        print_json(_as_json(progress))
    elif not progress.partition_count:
        say(NO_REASSIGNMENTS)
    else:
        _print(progress)
    return not progress.states


def _watch(cluster: Cluster, meter: ProgressMeter, progress: Progress, as_json: bool) -> None:
    reported_at = time.monotonic()
    with gauge("Reassigning", wanted=not as_json) as update:
        while progress.states:
            update(progress.copied_bytes, progress.total_bytes)
            if as_json:
                print_json(_as_json(progress))
            elif time.monotonic() - reported_at >= _REPORT_INTERVAL_S:
                reported_at = time.monotonic()
                say(_line(progress))
            time.sleep(_SAMPLING_INTERVAL_S)
            progress = meter.sample(_states(cluster), time.monotonic())
    if as_json:
        print_json(_as_json(progress))
    elif progress.partition_count:
        say(f"Reassignment complete: {_line(progress)}")
    else:
        say(NO_REASSIGNMENTS)


def _states(cluster: Cluster) -> list[ReassignmentState]:
    ongoing = Reassignments(cluster).list_ongoing()
    if not ongoing:
        return []
    layout = cluster.retry("listing brokers", lambda: cluster.layout({one.partition.topic for one in ongoing}))
    brokers = {broker for one in ongoing for broker in one.replicas} & layout.brokers.keys()
    sizes = sizes_on(cluster, sorted(brokers), [one.partition for one in ongoing])
    leaders = {
        TopicPartition(topic.name, partition.id): partition.leader
        for topic in layout.topics.values()
        for partition in topic.partitions
    }
    return [state_of(one, leaders.get(one.partition, -1), sizes) for one in ongoing]


def _print(progress: Progress) -> None:
    if progress.states:
        print_table(
            ("partition", "to", "adding", "removing", "copied", "of", "%"),
            [
                (
                    str(state.reassignment.partition),
                    state.reassignment.target,
                    state.reassignment.adding,
                    state.reassignment.removing,
                    format_bytes(state.copied_bytes),
                    format_bytes(state.total_bytes),
                    _percent(state.copied_bytes, state.total_bytes),
                )
                for state in progress.states
            ],
        )
    say(_line(progress))


def _line(progress: Progress) -> str:
    line = (
        f"{progress.completed_count} of {progress.partition_count} partitions complete,"
        f" {format_bytes(progress.copied_bytes)} of {format_bytes(progress.total_bytes)} copied"
    )
    if not progress.states:
        return line
    if progress.bytes_per_s is not None:
        line += f", {format_bytes(progress.bytes_per_s)}/s"
    left_s = progress.seconds_left
    return line + (", time left unknown" if left_s is None else f", {format_span(int(left_s * 1000))} left")


def _percent(part: int, whole: int) -> int:
    return 100 if whole == 0 else 100 * part // whole


def _as_json(progress: Progress) -> dict[str, Any]:
    return {
        "moves": [
            {
                "topic": state.reassignment.partition.topic,
                "partition": state.reassignment.partition.partition,
                "to": list(state.reassignment.target),
                "adding": list(state.reassignment.adding),
                "removing": list(state.reassignment.removing),
                "copied_bytes": state.copied_bytes,
                "total_bytes": state.total_bytes,
            }
            for state in progress.states
        ],
        "arrived": progress.completed_count,
        "copied_bytes": progress.copied_bytes,
        "total_bytes": progress.total_bytes,
        "bytes_per_second": progress.bytes_per_s,
        "seconds_left": progress.seconds_left,
    }
