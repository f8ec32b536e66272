"""Prints the result of an audit: counts by partition, then the faulty offsets."""

from odradek.pipelines.jobs.audit_topics import TopicFindings
from odradek.pipelines.jobs.findings import Fault, Findings
from odradek.text.output import OutputFormat, print_json, print_table
from odradek.text.terminal import say


def report_table(findings: Findings, format: OutputFormat) -> None:
    if format is OutputFormat.JSON:
        print_json(findings.to_json())
        return
    print_table(
        ("partition", "from", "to", "records", "rows", "dead letters", *(fault.label for fault in Fault), "checksums"),
        [
            (
                one.partition,
                one.start,
                one.end,
                one.records,
                one.rows,
                one.dead_letters,
                *(one.faults.get(fault, 0) for fault in Fault),
                "equal" if one.checksum == one.rows_checksum else "differ",
            )
            for one in findings.partitions
        ],
    )
    if findings.removed_rows:
        say(f"{findings.removed_rows:,} rows cannot be compared because retention has deleted their records.")
    for sentence in findings.sentences():
        say(sentence)
    say("Exact: every record has one row." if findings.is_exact else "Not exact.")


def report_topics(findings: TopicFindings, format: OutputFormat) -> None:
    if format is OutputFormat.JSON:
        print_json(findings.to_json())
        return
    left, right = findings.left, findings.right
    numbers = sorted(left.checksums.keys() | right.checksums.keys())
    print_table(
        ("partition", left.topic, right.topic, "checksums"),
        [
            (
                number,
                left.checksums.get(number, (0, 0))[0],
                right.checksums.get(number, (0, 0))[0],
                "equal" if left.checksums.get(number) == right.checksums.get(number) else "differ",
            )
            for number in numbers
        ],
    )
    for sentence in findings.sentences():
        say(sentence)
    if findings.is_exact:
        say(f"Exact: {left.records:,} records, each as often in {right.topic} as in {left.topic}.")
    else:
        say(f"Not exact: {findings.missing:,} missing and {findings.double:,} surplus records in {right.topic}.")
