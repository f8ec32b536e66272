"""Login through an OpenID Connect provider on another site, with the cookies of a real browser."""

from pathlib import Path
from typing import Any

from odradek.testing import Cluster
from tests.console.browser import PHONE, Visitor
from tests.console.console_process import ConsoleProcess
from tests.node_process import free_ports
from tests.oidc_provider import CLIENT, SECRET, oidc_provider


def test_login_through_an_oidc_provider_on_another_site(
    browser: Any, axe: str, cluster: Cluster, tmp_path: Path
) -> None:
    port = free_ports(1)[0]
    (tmp_path / "secret").write_text(SECRET)
    with oidc_provider("localhost") as provider:
        console = ConsoleProcess(
            cluster.bootstrap_servers,
            tmp_path,
            *("--port", str(port), "--public-url", f"http://127.0.0.1:{port}"),
            *("--oidc-issuer", provider.issuer, "--oidc-client-id", CLIENT, "--oidc-allow", "@example.org"),
            *("--oidc-secret-file", str(tmp_path / "secret")),
        )
        visitor = Visitor(browser, console.address, axe, PHONE)
        provider.claims = {"email": "eve@elsewhere.org"}
        page = visitor.page
        page.goto(visitor.address + "/brokers")
        visitor.expect(page.get_by_role("alert"), "eve@elsewhere.org is not allowed by --oidc-allow")
        visitor.check_accessible()
        visitor.problems.clear()
        provider.claims = {}
        page.goto(visitor.address + "/brokers")
        page.wait_for_url("**/brokers")
        visitor.expect(page.get_by_role("status"), "Healthy")
        page.wait_for_function("() => window.did_handshake")
        assert visitor.problems == []
        visitor.close()
        console.stop()
    assert "Traceback" not in console.log
