"""Prints the results of a rewrite and of its audit."""

from collections.abc import Sequence

from odradek.pipelines.jobs.rewrite.audit import RewriteFindings
from odradek.pipelines.jobs.rewrite.places import Place
from odradek.text.output import OutputFormat, print_json
from odradek.text.terminal import say


def report_places(places: Sequence[Place], searched_topics: int, format: OutputFormat) -> None:
    if format is OutputFormat.JSON:
        form = [one.to_json() for one in places]
        print_json({"event": "places", "searched_topics": searched_topics, "places": form})
        return
    if not any(one.records for one in places):
        say(f"No record in {searched_topics} topics has an erased key.")
    else:
        say("The erased keys are still in:")
    for one in places:
        say(f"  {one}")


def report_rewritten(findings: RewriteFindings, format: OutputFormat) -> None:
    if format is OutputFormat.JSON:
        print_json(findings.to_json())
        return
    records = findings.records
    source, target = records.left.topic, records.right.topic
    for sentence in findings.sentences():
        say(sentence)
    if findings.removed_offsets:
        say(
            f"{findings.removed_offsets:,} offsets of {source} cannot be compared because retention has deleted them "
            "since."
        )
    if findings.is_exact:
        say(f"Exact: {records.right.records:,} records in {target}, as the job's rules derive them from {source}.")
    else:
        say(
            f"Not exact: {records.missing:,} missing, {records.double:,} surplus and {findings.disordered:,} "
            "out-of-order "
            f"records in {target}."
        )
