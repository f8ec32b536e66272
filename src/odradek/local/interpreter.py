"""Whether this Python interpreter was built with optimizations.

Depends only on the standard library: `tools/find_python.py` runs it with other interpreters.
"""

import os
import sys
import sysconfig

REPORTED_BY_PARENT = "ODRADEK_INTERPRETER_REPORTED"
"""Environment variable of nodes whose parent process has reported the interpreter."""


def is_optimized(config_args: str | None = None, base_prefix: str = sys.base_prefix) -> bool:
    """True also if it is not known. `config_args` are the arguments of the interpreter's build, by default its own.

    Debian and Ubuntu pass the optimization to `make`, so that these arguments do not show it. Only packages of a
    distribution are in /usr.
    """
    known = sysconfig.get_config_var("CONFIG_ARGS") if config_args is None else config_args
    return not known or "--enable-optimizations" in known or base_prefix == "/usr"


def find_interpreter_warning() -> str | None:
    """One line for the user, or None. Nodes that `odradek up` starts do not repeat it."""
    if REPORTED_BY_PARENT in os.environ or is_optimized():
        return None
    return (
        f"Python {sys.version.split()[0]} in {sys.base_prefix} was built without optimizations: nodes need up to a "
        "fifth more CPU time. Use the python3 of your distribution, or build Python with --enable-optimizations "
        "(pyenv: PYTHON_CONFIGURE_OPTS=--enable-optimizations)."
    )
