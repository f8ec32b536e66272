from importlib import import_module

from tests import components
from tests.console.browser import Visitor
from tests.console.conftest import TABLE
from tests.console.console_process import ConsoleProcess


def test_pipeline_is_shown_and_fails_to_start_without_its_topics(visitor: Visitor, console: ConsoleProcess) -> None:
    components.require("odradek[jobs]", _jobs)
    status = import_module("odradek.pipelines.jobs.pipeline.status")
    query = status.QueryStatus(
        name="<script>", records=1234, dead_letters=2, offsets={"orders": {"0": 1}}, ends={"orders": {"0": 8}}
    )
    state = console.audit_log.parent / "state"
    state.mkdir(exist_ok=True)
    status.PipelineStatus(1, "done", 1_700_000_000_000, (query,)).keep(state)
    page = visitor.open("/pipelines")
    visitor.expect(visitor.cell("0:<script>", "state"), "done")
    visitor.expect(visitor.cell("0:<script>", "lag"), "7")
    visitor.expect(visitor.cell("0:<script>", "letters"), "2")
    visitor.check_accessible()
    page.get_by_role("button", name="Start shop").click()
    visitor.press_in_dialog("Start pipeline")
    # On a slow computer the failure appears after the message that the pipeline is starting.
    visitor.expect(page.locator("main .o-bad"), "not-there")


def test_job_is_shown_and_fails_to_start_without_its_topic(at_desk: Visitor, console: ConsoleProcess) -> None:
    components.require("odradek[jobs]", _jobs)
    progress, run_status = (
        import_module("odradek.pipelines.jobs.progress"),
        import_module("odradek.pipelines.jobs.run_status"),
    )
    state = console.audit_log.parent / TABLE / "_odradek" / "nowhere"
    state.mkdir(parents=True)
    reached = progress.Progress(
        batches=1,
        rows=1234,
        dead_letters=2,
        rows_per_second=None,
        seconds_left=None,
        partitions=(progress.PartitionProgress(0, 1, 8),),
    )
    run_status.RunStatus(pid=1, state="stopped", at_ms=1_700_000_000_000, what="orders = <b>", progress=reached).keep(
        state
    )
    page = at_desk.open("/pipelines")
    at_desk.expect(at_desk.cell("1:orders = <b>", "state"), "stopped")
    at_desk.expect(at_desk.cell("1:orders = <b>", "lag"), "7")
    at_desk.expect(at_desk.cell("1:orders = <b>", "letters"), "2")
    at_desk.check_accessible()
    page.get_by_role("button", name="Start ingest nowhere").click()
    at_desk.expect(page.get_by_role("dialog"), "Runs `odradek job ingest` for topic nowhere")
    at_desk.press_in_dialog("Start job")
    at_desk.expect(page.locator("main .o-bad"), "ingest nowhere: Topic 'nowhere' does not exist")
    at_desk.expect(at_desk.cell("1:", "state"), "failed")
    assert "ungeziefer" not in page.content()


def _jobs() -> None:
    try:
        import_module("yaml")
        import_module("pyarrow")
    except ModuleNotFoundError as error:
        raise components.ComponentMissing(f"pip install 'odradek[jobs]' ({error.name})") from None
