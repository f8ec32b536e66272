"""Prints partitions, hot keys and suggestions, as tables or JSON."""

import base64
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from odradek.pipelines.jobs.atomic_files import write_atomically
from odradek.pipelines.jobs.skew.advice import SkewFindings, key_text
from odradek.pipelines.jobs.skew.page import page
from odradek.text.amounts import format_bytes
from odradek.text.output import OutputFormat, print_json, print_table
from odradek.text.terminal import say

_KEYS_PRINTED: Final = 10


def report_skew(findings: SkewFindings, format: OutputFormat, file: Path | None) -> None:
    if file is not None:
        write_atomically(file, page(findings, datetime.now(UTC)))
    if format is OutputFormat.JSON:
        print_json(_form(findings))
        return
    mean = max(1.0, findings.summary.records / findings.partition_count)
    print_table(
        ("partition", "records", "size", "relative to mean"),
        [
            (number, one.records, format_bytes(one.bytes), f"{one.records / mean:.2f}")
            for number, one in sorted(findings.summary.partitions.items())
        ],
    )
    if findings.keys:
        print_table(
            ("key", "records", "share", "partition"),
            [
                (key_text(one.key), one.records, f"{one.share:.1%}", one.partition)
                for one in findings.keys[:_KEYS_PRINTED]
            ],
        )
    for one in findings.suggestions:
        say(one)
    if file is not None:
        say(f"Wrote the report to {file}.")


def _form(findings: SkewFindings) -> dict[str, Any]:
    summary = findings.summary
    return {
        "topic": findings.topic,
        "records": summary.records,
        "without_key": summary.without_key,
        "unevenness": round(findings.unevenness, 3),
        "partitions": [
            {"partition": number, "records": one.records, "bytes": one.bytes}
            for number, one in sorted(summary.partitions.items())
        ],
        "window_ms": summary.window_ms,
        "windows": [
            {"start_ms": number * summary.window_ms, "partitions": window.partitions}
            for number, window in sorted(summary.windows.items())
        ],
        "keys": [
            {
                "key": key_text(one.key),
                "key_base64": base64.b64encode(one.key).decode(),
                "records": one.records,
                "share": round(one.share, 5),
                "partition": one.partition,
            }
            for one in findings.keys
        ],
        "counts_too_low_by_at_most": findings.missed,
        "suggestions": list(findings.suggestions),
    }
