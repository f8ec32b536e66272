"""A Kerberos realm on loopback: MIT's KDC with a database of its own."""

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests import components
from tests.node_process import free_ports
from tests.wire.plain_requests import until

REALM: Final = "ODRADEK.TEST"
_PROGRAMS: Final = ("krb5kdc", "kdb5_util", "kadmin.local", "kinit")
_SEARCHED: Final = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


def require_kdc() -> None:
    components.require("MIT Kerberos", _find)


def _find() -> bool:
    for name in _PROGRAMS:
        if shutil.which(name, path=_SEARCHED) is None:
            raise components.ComponentMissing(f"{name} is missing (Debian: krb5-kdc, krb5-admin-server, krb5-user)")
    return True


class KerberosRealm:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        (self._port,) = free_ports(1)
        self.config = directory / "krb5.conf"
        self.config.write_text(
            f"[libdefaults]\ndefault_realm = {REALM}\ndns_lookup_kdc = false\ndns_lookup_realm = false\n"
            "dns_canonicalize_hostname = false\nrdns = false\nudp_preference_limit = 1\n"
            f"[realms]\n{REALM} = {{\n kdc = 127.0.0.1:{self._port}\n}}\n"
            f"[domain_realm]\nlocalhost = {REALM}\n"
        )
        (directory / "kdc.conf").write_text(
            f"[kdcdefaults]\nkdc_listen = 127.0.0.1:{self._port}\nkdc_tcp_listen = 127.0.0.1:{self._port}\n"
            f"[realms]\n{REALM} = {{\n database_name = {directory}/principal\n key_stash_file = {directory}/stash\n"
            f" acl_file = {directory}/acl\n}}\n"
        )
        self._run("kdb5_util", "create", "-s", "-P", "master", "-r", REALM)
        self._process = subprocess.Popen(
            self._command("krb5kdc", "-n"), env=self.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        until(self._serves, what="the KDC")

    def environment(self, **more: str) -> dict[str, str]:
        """Of a process that uses this realm."""
        return {
            **os.environ,
            "KRB5_CONFIG": str(self.config),
            "KRB5_KDC_PROFILE": str(self.directory / "kdc.conf"),
            "KRB5RCACHEDIR": str(self.directory),
            **more,
        }

    def keytab(self, principal: str) -> Path:
        """Create the principal, and a file with its keys."""
        file = self.directory / f"{principal.replace('/', '-')}.keytab"
        self._run("kadmin.local", "-r", REALM, "-q", f"addprinc -randkey {principal}")
        self._run("kadmin.local", "-r", REALM, "-q", f"ktadd -k {file} {principal}")
        return file

    def ticket_cache(self, principal: str, keytab: Path) -> str:
        """The value of KRB5CCNAME for a process that acts as this principal."""
        cache = f"FILE:{self.directory}/{principal.replace('/', '-')}.cache"
        self._run("kinit", "-c", cache, "-k", "-t", str(keytab), f"{principal}@{REALM}")
        return cache

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(10)

    def _serves(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self._port)) == 0

    def _run(self, *command: str) -> None:
        done = subprocess.run(
            self._command(*command), env=self.environment(), capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr

    @staticmethod
    def _command(program: str, *arguments: str) -> list[str]:
        found = shutil.which(program, path=_SEARCHED)
        assert found is not None, program
        return [found, *arguments]


@contextmanager
def kerberos_realm(directory: Path) -> Iterator[KerberosRealm]:
    require_kdc()
    realm = KerberosRealm(directory)
    try:
        yield realm
    finally:
        realm.stop()
