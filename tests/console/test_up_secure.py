"""`odradek up --secure` starts a console that requires a login and connects to the cluster as its administrator."""

import signal
import subprocess
import sys
import urllib.error
import urllib.request
from http.cookiejar import CookieJar
from pathlib import Path
from urllib.parse import urlencode

from odradek.local.security_files import SecurityFiles
from tests.wire.up_process import free_row


def test_the_console_of_a_secure_cluster_requires_its_password(tmp_path: Path) -> None:
    files = SecurityFiles(tmp_path / "cluster")
    command = [sys.executable, "-m", "odradek", "up", "--secure", "--port", str(free_row()), "--console-port", "0"]
    with subprocess.Popen(
        [*command, "--data-dir", str(files.client_properties.parent)], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            line = [process.stdout.readline() for _ in range(6)][-1]
            word, address, remark = line.strip().split(" ", 2)
            assert word == "console"
            assert remark == f"(log in with the password in {files.console_password})"
            browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
            with browser.open(address) as response:
                assert response.url.startswith(f"{address}login")
            assert log_in(browser, address, "a wrong password") == 403
            assert log_in(browser, address, files.console_password.read_text().strip()) == 200
            with browser.open(f"{address}brokers") as response:
                assert response.url == f"{address}brokers"
            assert files.console_password.read_text().strip() not in command_lines(process.pid)
        finally:
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 0
    log = (files.client_properties.parent / "console.log").read_text()
    assert files.administrator().password not in log
    assert files.console_password.read_text().strip() not in log


def log_in(browser: urllib.request.OpenerDirector, address: str, password: str) -> int:
    request = urllib.request.Request(
        f"{address}login",
        urlencode({"name": "ann", "password": password, "next": "/"}).encode(),
        {"Origin": address.rstrip("/")},
    )
    try:
        with browser.open(request) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        return error.code


def command_lines(parent: int) -> str:
    """The command lines of the process and of its children."""
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return "".join(Path(f"/proc/{pid}/cmdline").read_text() for pid in (parent, *children))
