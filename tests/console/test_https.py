"""The console with TLS: the handshake, the login, and requests without TLS."""

import http.client
import socket
import ssl
from contextlib import closing, suppress
from pathlib import Path
from urllib.parse import urlsplit

from tests.certificates import Authority
from tests.console.console_process import ConsoleProcess
from tests.node_process import free_ports


def test_the_console_serves_https_only(tmp_path: Path) -> None:
    authority = Authority()
    issued = authority.issue()
    password, certificate, key = (tmp_path / name for name in ("password", "console.pem", "console.key"))
    password.write_text("long enough\n")
    certificate.write_bytes(issued.certificate)
    key.write_bytes(issued.key)
    options = ("--password-file", str(password), "--tls-certificate", str(certificate), "--tls-key", str(key))
    # The cluster need not be there.
    console = ConsoleProcess(f"127.0.0.1:{free_ports(1)[0]}", tmp_path, *options)
    try:
        address = urlsplit(console.address)
        assert (address.scheme, address.hostname) == ("https", "127.0.0.1") and address.port is not None
        trusted = ssl.create_default_context(cadata=authority.pem.decode())
        with closing(http.client.HTTPSConnection("127.0.0.1", address.port, timeout=30, context=trusted)) as connection:
            connection.request("GET", "/")
            response = connection.getresponse()
            page = response.read()
            assert response.status in (302, 303, 307, 401) or b"password" in page.lower()
            cookies = [value for name, value in response.getheaders() if name.lower() == "set-cookie"]
            assert all("secure" in one.lower() for one in cookies)
        with socket.create_connection(("127.0.0.1", address.port), 30) as plain:
            plain.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            with suppress(ConnectionResetError):
                assert not plain.recv(1000).startswith(b"HTTP")
    finally:
        console.stop()
