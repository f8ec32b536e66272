"""The published table of clients and mechanisms is what the tests run."""

from pathlib import Path

from tests.wire.logins import CLIENTS, GSSAPI_CLIENTS, KINDS, UNSUPPORTED, WITHOUT_GSSAPI

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "tls-and-sasl.md"
NAMES = {
    "java": "Java client and tools",
    "odradek": "`odradek` commands",
}
SPARK = {"Spark's Kafka connector": "yes", '`format("odradek")`': "no (not supported yet)"}


def table() -> str:
    rows = [["client", *KINDS, "GSSAPI"], ["---"] * (len(KINDS) + 2)]
    rows += [
        [NAMES.get(client, client), *(cell(client, kind) for kind in KINDS), kerberos(client)] for client in CLIENTS
    ]
    rows += [[name, *(["yes"] * len(KINDS)), gssapi] for name, gssapi in SPARK.items()]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows).replace("| --- ", "|---").replace("|--- |", "|---|")


def cell(client: str, kind: str) -> str:
    reason = UNSUPPORTED.get((client, kind))
    return "yes" if reason is None else f"no ({reason})"


def kerberos(client: str) -> str:
    return "yes" if client in GSSAPI_CLIENTS else f"no ({WITHOUT_GSSAPI[client]})"


def test_page_has_the_table_of_the_tests() -> None:
    found = PAGE.read_text().partition("<!-- logins -->\n")[2].partition("<!-- logins end -->")[0]
    assert found == table()
