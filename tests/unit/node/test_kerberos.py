"""A node without the package gssapi."""

import sys

import pytest

from odradek.config.sasl_config import KerberosConfig
from odradek.node.kerberos import KerberosListener, KerberosUnusable


def test_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "odradek.host.kerberos", raising=False)
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with pytest.raises(KerberosUnusable, match=r"pip install 'odradek\[gssapi\]'") as refused:
        KerberosListener(KerberosConfig("kafka/a@B", "/keytab", ("DEFAULT",)))
    assert "\n" not in str(refused.value)
