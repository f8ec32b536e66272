"""Why TLS failed, in one line without OpenSSL's source positions."""

import re
import ssl
from typing import Final

_DECORATION: Final = re.compile(r"^\[[^]]*\]\s*|\s*\(_ssl\.c:\d+\)$")


class TlsError(Exception):
    """The key material of a listener cannot be used. One line that names the listener, without any secret."""


def describe_tls_failure(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate verification failed: {error.verify_message}"
    text = str(error.args[1]) if isinstance(error, ssl.SSLError) and len(error.args) > 1 else str(error)
    while (shorter := _DECORATION.sub("", text)) != text:
        text = shorter
    return text or type(error).__name__
