"""The published table of clients and mechanisms is what the tests run."""

from pathlib import Path

from tests.wire.logins import CLIENTS, KINDS, UNSUPPORTED

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "tls-and-sasl.md"
NAMES = {
    "java": "Java client and tools",
    "odradek": "`odradek` commands",
}
SPARK = ("Spark's Kafka connector", '`format("odradek")`')


def table() -> str:
    rows = [["client", *KINDS], ["---"] * (len(KINDS) + 1)]
    rows += [[NAMES.get(client, client), *(cell(client, kind) for kind in KINDS)] for client in CLIENTS]
    rows += [[name, *(["yes"] * len(KINDS))] for name in SPARK]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows).replace("| --- ", "|---").replace("|--- |", "|---|")


def cell(client: str, kind: str) -> str:
    reason = UNSUPPORTED.get((client, kind))
    return "yes" if reason is None else f"no ({reason})"


def test_page_has_the_table_of_the_tests() -> None:
    found = PAGE.read_text().partition("<!-- logins -->\n")[2].partition("<!-- logins end -->")[0]
    assert found == table()
