"""The programs of workers, imported when they are needed: a node without coordinators does not import their code."""

from collections.abc import Mapping
from importlib import import_module
from typing import Final

from odradek.base.ports import Pool, Program

_MODULES: Final[Mapping[Pool, str]] = {
    Pool.COMPACTION: "odradek.storage.log.compaction_program",
    Pool.LOADING: "odradek.broker.coordinators.loading_program",
}


def load_program(pool: Pool) -> Program:
    program: Program = import_module(_MODULES[pool]).run
    return program
