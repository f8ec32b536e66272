import json
from collections.abc import Callable

from odradek.client.admin import Admin
from odradek.client.cluster import Cluster
from tests.console.browser import Visitor
from tests.console.conftest import eventually
from tests.console.console_process import ConsoleProcess


def replicas_of(client: Cluster, topic: str) -> tuple[int, ...]:
    return client.topics([topic])[topic].partitions[0].replicas


def test_reassignment_is_started_cancelled_and_completed(
    visitor: Visitor, client: Cluster, new_topic: Callable[..., str], console: ConsoleProcess
) -> None:
    topic = new_topic(f"moved-{visitor.page.viewport_size['width']}", *[b"x" * 100_000] * 30, replicas=1)
    (home,) = replicas_of(client, topic)
    away = home % 3 + 1
    page = visitor.open(f"/partitions?search={topic}")
    key = f"{topic}-0"
    visitor.expect(visitor.cell(key, f"broker-{home}"), "leader, 3.0 MB")
    visitor.check_accessible()
    page.get_by_role("button", name=f"Reassign {key}").click()
    visitor.fill("Brokers", "9")
    visitor.press_in_dialog("Preview")
    visitor.expect(page.get_by_role("alert"), "Broker 9 is not online. Online brokers: 1, 2, 3.")
    visitor.fill("Brokers", str(away))
    # Slow enough to be observed and cancelled.
    visitor.fill("Throttle", "100000")
    visitor.press_in_dialog("Preview")
    visitor.expect(page.get_by_role("dialog"), "Reassigns 1 partition: 3.0 MB to copy, 30 s at 100.0 kB/s.")
    visitor.check_accessible()
    visitor.press_in_dialog("Reassign partitions")
    assert "1 partition being reassigned." in visitor.outcome()
    visitor.expect(visitor.cell(key, "state"), "reassigning")
    page = visitor.open("/reassignments")
    visitor.expect(visitor.cell(key, "adding"), str(away))
    visitor.check_accessible()
    visitor.picture("moves")
    visitor.press("Cancel all reassignments")
    visitor.press_in_dialog("Cancel reassignments")
    visitor.expect(page.locator("main"), "No reassignments in progress")
    eventually(lambda: replicas_of(client, topic) == (home,))
    visitor.press("Remove throttles")
    visitor.press_in_dialog("Remove throttles")
    visitor.expect(page.locator(".o-message"), "Removed the throttles")
    page = visitor.open(f"/partitions?search={topic}")
    page.get_by_role("button", name=f"Reassign {key}").click()
    visitor.fill("Brokers", str(away))
    visitor.press_in_dialog("Preview")
    visitor.press_in_dialog("Reassign partitions")
    visitor.expect(visitor.cell(key, f"broker-{away}"), "leader")
    eventually(lambda: replicas_of(client, topic) == (away,))
    # A topic with a single replica would disturb a test that kills brokers.
    Admin(client).delete_topic(topic)
    page = visitor.open("/audit-log")
    visitor.expect(page.locator("td[data-column=outcome]"), "1 partition being reassigned.")
    visitor.check_accessible()
    begun = json.loads(console.audit_log.read_text().splitlines()[-2])
    assert begun["details"]["moves"] == {key: {"from": [home], "to": [away]}}


def test_partitions_are_sorted_by_heat(at_desk: Visitor, new_topic: Callable[..., str]) -> None:
    new_topic("warmed")
    page = at_desk.open("/partitions?search=warmed")
    at_desk.choose("Sort by", "heat")
    at_desk.expect(at_desk.cell("warmed-0", "written"), "unknown")
    page.wait_for_url("**/partitions?search=warmed&order=heat")
    at_desk.check_accessible()


def test_drain_is_refused_without_enough_brokers_and_preferred_leaders_are_elected(
    at_desk: Visitor, client: Cluster, new_topic: Callable[..., str]
) -> None:
    new_topic("everywhere")
    topic = new_topic("planned", b"value", replicas=2)
    page = at_desk.open("/brokers")
    page.get_by_role("button", name="Drain Broker 1").click()
    at_desk.press_in_dialog("Preview")
    at_desk.expect(page.get_by_role("alert"), "needs 3 brokers for its replicas, but only 2 would be left")
    at_desk.press_in_dialog("Cancel")
    first, second = replicas_of(client, topic)
    at_desk.open(f"/partitions?search={topic}")
    page.get_by_role("button", name=f"Reassign {topic}-0").click()
    at_desk.fill("Brokers", f"{second}, {first}")
    at_desk.press_in_dialog("Preview")
    at_desk.press_in_dialog("Reassign partitions")
    at_desk.outcome()
    eventually(lambda: replicas_of(client, topic) == (second, first))
    at_desk.press("Elect preferred leaders")
    at_desk.press_in_dialog("Elect preferred leaders")
    eventually(lambda: client.topics([topic])[topic].partitions[0].leader == second)
    at_desk.expect(at_desk.cell(f"{topic}-0", f"broker-{second}"), "leader")
    Admin(client).delete_topic(topic)
