"""A broker that can remove its assertions of invariants at run time (`bench.exchanged_code`).

Started as `python -m bench.asserting_broker SOCKET start server.properties`.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Final

import odradek.node.node  # the modules of a node; others never run here
from bench.exchanged_code import ExchangedFunction, codes_in, find_function, serve_commands
from odradek.cli.main import run

ON_THE_PRODUCE_PATH: Final = (
    "odradek.storage.log.partition_log.PartitionLog._append",
    "odradek.storage.partition.partition.Partition._on_high_watermark_advance",
)
"""Functions with assertions that each Produce request runs: without them, the benchmark would measure nothing."""
LOCAL: Final = "<locals>"


def _functions_of(module: ModuleType) -> Iterator[tuple[str, ExchangedFunction]]:
    file = str(module.__file__)
    text = Path(file).read_text()
    asserting, plain = (
        {(one.co_qualname, one.co_firstlineno): one for one in codes_in(compile(text, file, "exec", optimize=level))}
        for level in (0, 1)
    )
    for (name, line), code in asserting.items():
        # A nested function is exchanged with the function that defines it.
        if name == "<module>" or LOCAL in name or _is_class_body(code.co_names):
            continue
        if code != plain[name, line]:
            yield f"{module.__name__}.{name}", ExchangedFunction(find_function(module, name), code, plain[name, line])


def _is_class_body(names: tuple[str, ...]) -> bool:
    return "__qualname__" in names


def functions_with_assertions() -> dict[str, ExchangedFunction]:
    """Those of all modules that are loaded."""
    loaded = [module for name, module in sys.modules.items() if name.startswith("odradek.") and module.__file__]
    found = dict(one for module in loaded for one in _functions_of(module))
    missing = [name for name in ON_THE_PRODUCE_PATH if name not in found]
    assert not missing, f"no assertions in {missing}"
    return found


if __name__ == "__main__":
    assert odradek.node.node
    serve_commands(sys.argv.pop(1), list(functions_with_assertions().values()))
    sys.exit(run(sys.argv[1:]))
