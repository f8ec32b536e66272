import json
from collections.abc import Callable

from odradek.client.admin import Admin
from odradek.client.cluster import Cluster
from tests.console.browser import Visitor
from tests.console.conftest import eventually
from tests.console.console_process import ConsoleProcess


def replicas_of(client: Cluster, topic: str) -> tuple[int, ...]:
    return client.topics([topic])[topic].partitions[0].replicas


def test_a_reassignment_is_started_watched_and_finished_by_clicks(
    anybody: Visitor, client: Cluster, new_topic: Callable[..., str], console: ConsoleProcess
) -> None:
    topic = new_topic(f"moved-{anybody.page.viewport_size['width']}", *[b"x" * 100_000] * 30, replicas=1)
    (home,) = replicas_of(client, topic)
    away = home % 3 + 1
    page = anybody.open(f"/partitions?search={topic}")
    key = f"{topic}-0"
    anybody.expect(anybody.cell(key, f"broker-{home}"), "leader, 3.0 MB")
    anybody.check_accessible()
    page.get_by_role("button", name=f"Reassign {key}").click()
    anybody.fill("Brokers", "9")
    anybody.answer("Preview")
    anybody.expect(page.get_by_role("alert"), "Broker 9 is not online. Online brokers: 1, 2, 3.")
    anybody.fill("Brokers", str(away))
    # So slow that it can be watched, and called off.
    anybody.fill("Throttle", "100000")
    anybody.answer("Preview")
    anybody.expect(page.get_by_role("dialog"), "Reassigns 1 partition: 3.0 MB to copy, 30 s at 100.0 kB/s.")
    anybody.check_accessible()
    anybody.answer("Reassign partitions")
    assert "1 partition being reassigned." in anybody.told()
    anybody.expect(anybody.cell(key, "state"), "reassigning")
    page = anybody.open("/reassignments")
    anybody.expect(anybody.cell(key, "adding"), str(away))
    anybody.check_accessible()
    anybody.picture("moves")
    anybody.press("Cancel all reassignments")
    anybody.answer("Cancel reassignments")
    anybody.expect(page.locator("main"), "No reassignments in progress")
    eventually(lambda: replicas_of(client, topic) == (home,))
    anybody.press("Remove throttles")
    anybody.answer("Remove throttles")
    anybody.expect(page.locator(".o-message"), "Removed the throttles")
    page = anybody.open(f"/partitions?search={topic}")
    page.get_by_role("button", name=f"Reassign {key}").click()
    anybody.fill("Brokers", str(away))
    anybody.answer("Preview")
    anybody.answer("Reassign partitions")
    anybody.expect(anybody.cell(key, f"broker-{away}"), "leader")
    eventually(lambda: replicas_of(client, topic) == (away,))
    # Who has one replica only is in the way of a test that kills brokers.
    Admin(client).delete_topic(topic)
    page = anybody.open("/audit-log")
    anybody.expect(page.locator("td[data-column=outcome]"), "1 partition being reassigned.")
    anybody.check_accessible()
    begun = json.loads(console.audit_log.read_text().splitlines()[-2])
    assert begun["details"]["moves"] == {key: {"from": [home], "to": [away]}}


def test_the_hottest_partitions_come_first(at_desk: Visitor, new_topic: Callable[..., str]) -> None:
    new_topic("warmed")
    page = at_desk.open("/partitions?search=warmed")
    at_desk.choose("Sort by", "heat")
    at_desk.expect(at_desk.cell("warmed-0", "written"), "unknown")
    page.wait_for_url("**/partitions?search=warmed&order=heat")
    at_desk.check_accessible()


def test_a_broker_is_drained_by_plan_and_leaders_go_home(
    at_desk: Visitor, client: Cluster, new_topic: Callable[..., str]
) -> None:
    new_topic("everywhere")
    topic = new_topic("planned", b"value", replicas=2)
    page = at_desk.open("/brokers")
    page.get_by_role("button", name="Drain Broker 1").click()
    at_desk.answer("Preview")
    at_desk.expect(page.get_by_role("alert"), "needs 3 brokers for its replicas, but only 2 would be left")
    at_desk.answer("Cancel")
    first, second = replicas_of(client, topic)
    at_desk.open(f"/partitions?search={topic}")
    page.get_by_role("button", name=f"Reassign {topic}-0").click()
    at_desk.fill("Brokers", f"{second}, {first}")
    at_desk.answer("Preview")
    at_desk.answer("Reassign partitions")
    at_desk.told()
    eventually(lambda: replicas_of(client, topic) == (second, first))
    at_desk.press("Elect preferred leaders")
    at_desk.answer("Elect preferred leaders")
    eventually(lambda: client.topics([topic])[topic].partitions[0].leader == second)
    at_desk.expect(at_desk.cell(f"{topic}-0", f"broker-{second}"), "leader")
    Admin(client).delete_topic(topic)
