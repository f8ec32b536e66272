"""The entry points of `odradek job rewrite`, `switch` and `audit --rewritten`."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from odradek.client.cluster import Cluster
from odradek.pipelines.jobs.commands import NOT_EXACT, SparkSettings, run_batches, temporary_session
from odradek.pipelines.jobs.lock import find_holder
from odradek.pipelines.jobs.rewrite.audit import RewriteAudit
from odradek.pipelines.jobs.rewrite.erased_keys import ErasedKeys
from odradek.pipelines.jobs.rewrite.job import RewriteJob, RewriteSettings
from odradek.pipelines.jobs.rewrite.places import ErasureSearch
from odradek.pipelines.jobs.rewrite.report import report_places, report_rewritten
from odradek.pipelines.jobs.rewrite.switch import Switch
from odradek.pipelines.jobs.rewrite.tables import check_roots
from odradek.pipelines.jobs.state import JobState
from odradek.pipelines.jobs.stopping import wait_for_holder
from odradek.text.errors import UserError
from odradek.text.output import OutputFormat
from odradek.text.terminal import say

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """Where to search for erased keys at the end."""

    tables: tuple[Path, ...] = ()
    is_on: bool = True


def run_rewrite(
    cluster: Cluster, settings: RewriteSettings, search: SearchSettings, spark: SparkSettings, format: OutputFormat
) -> int:
    check_roots(search.tables)
    state = JobState(settings.state, settings.name)
    what = f"{settings.source} → {settings.target}"

    def report_erased_keys(session: "SparkSession") -> None:
        erased = settings.rules.erased
        if erased is None or not search.is_on:
            return
        found = ErasureSearch(cluster, settings.bootstrap, settings.source, erased)
        topics = len(found.topics())
        if format is OutputFormat.TABLE:
            say(f"Searching {topics} topics for the erased keys.")
        report_places(found.places(session, search.tables), topics, format)

    return run_batches(
        f"rewrite {settings.name}",
        what,
        state,
        lambda: RewriteJob(cluster, settings, state),
        spark,
        format,
        when_done=report_erased_keys,
    )


def switch(state: JobState, name: str, timeout_s: float) -> None:
    """End a run with --follow as soon as it has copied everything and no more records arrive."""
    if not state.exists or state.identity().get("job") != "rewrite":
        raise UserError(f"{str(state.directory.parent)!r} has no rewrite job {name!r}. Check --state and --name.")
    running = find_holder(state.lock)
    if running is None:
        raise UserError(f"Job {name} is not running. Run it without --follow to copy the remaining records.")
    request = Switch(state)
    request.request()
    if not wait_for_holder(state.lock, running, timeout_s):
        raise UserError(
            f"Job {name} has not ended within {timeout_s:.0f} s. It ends when no more records arrive. Stop the "
            "producers of the source topic."
        )
    if request.is_requested:
        raise UserError(f"Job {name} ended before the switch. Check its output, then start it again.")
    say(f"Job {name} has copied everything and ended. Switch the clients to the new topic.")


def audit_rewritten(
    cluster: Cluster,
    bootstrap: str,
    source: str,
    target: str,
    state: JobState,
    name: str,
    erased: ErasedKeys | None,
    spark: SparkSettings,
    format: OutputFormat,
) -> int:
    audit = RewriteAudit(cluster, bootstrap, source, target, state, name, erased)
    with temporary_session(f"audit {name}", spark) as session:
        findings = audit.run(session)
    report_rewritten(findings, format)
    return 0 if findings.is_exact else NOT_EXACT
