"""Certificates for test servers, created by openssl."""

import subprocess
from pathlib import Path

from tests import components


def make_certificate(directory: Path) -> Path:
    """Create a key and a self-signed certificate for 127.0.0.1 and return the file with both."""
    openssl = components.require("openssl", lambda: components.find_program("openssl"))
    key, made, both = directory / "key.pem", directory / "certificate.pem", directory / "both.pem"
    kind = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2"
    name = "-subj /CN=broker -addext subjectAltName=IP:127.0.0.1"
    command = [openssl, "req", "-x509", *kind.split(), *name.split(), "-keyout", key, "-out", made]
    subprocess.run(command, check=True, capture_output=True)
    both.write_text(key.read_text() + made.read_text())
    return both
