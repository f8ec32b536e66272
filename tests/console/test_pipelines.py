from importlib import import_module

from tests import components
from tests.console.browser import Visitor
from tests.console.console_process import ConsoleProcess


def test_a_pipeline_is_shown_and_its_start_refused_for_want_of_topics(
    anybody: Visitor, console: ConsoleProcess
) -> None:
    components.require("odradek[jobs]", _jobs)
    status = import_module("odradek.jobs.pipeline.status")
    query = status.QueryStatus(
        name="<script>", records=1234, dead_letters=2, offsets={"orders": {"0": 1}}, ends={"orders": {"0": 8}}
    )
    state = console.audit_log.parent / "state"
    state.mkdir(exist_ok=True)
    status.PipelineStatus(1, "done", 1_700_000_000_000, (query,)).keep(state)
    page = anybody.open("/pipelines")
    anybody.expect(anybody.cell("0:<script>", "state"), "done")
    anybody.expect(anybody.cell("0:<script>", "lag"), "7")
    anybody.expect(anybody.cell("0:<script>", "letters"), "2")
    anybody.check_accessible()
    page.get_by_role("button", name="Start shop").click()
    anybody.answer("Start pipeline")
    # On a slow machine only after it was said that it starts.
    anybody.expect(page.locator("main .o-bad"), "not-there")


def _jobs() -> None:
    try:
        import_module("yaml")
        import_module("pyarrow")
    except ModuleNotFoundError as error:
        raise components.ComponentMissing(f"pip install 'odradek[jobs]' ({error.name})") from None
