"""A node's process under a test: `odradek start`, which begins when it is told to, and ends with whoever started it.

It is started before there is anything to serve from, and imports meanwhile what a node needs; a byte on its standard
input says that the files are there. The end of that input is the end of the test.
"""

import os
import sys
import threading
from typing import Final

from odradek.cli.main import main

GO: Final = b"g"
_ORPHANED: Final = 3


def _end_with_the_test() -> None:
    os.read(sys.stdin.fileno(), 1)
    os._exit(_ORPHANED)


def _run() -> None:
    # As the command line does, for the same reason: kio would import it.
    sys.modules.setdefault("hypothesis", None)  # type: ignore[arg-type]
    import odradek.node.run  # noqa: F401

    if os.read(sys.stdin.fileno(), 1) == GO:
        threading.Thread(target=_end_with_the_test, daemon=True).start()
        main()


if __name__ == "__main__":
    _run()
