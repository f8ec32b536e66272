"""The number of threads of each pool."""

import os
from collections.abc import Mapping
from typing import Final

from odradek.base.ports import Pool
from odradek.config.node_config import NodeConfig

# Work that needs the interpreter. More threads would not make it faster, only the event loop slower.
_INTERPRETED: Final = {Pool.VALIDATION: 2, Pool.CODEC: 2, Pool.LOADING: 2, Pool.CONTROLLER: 1}


def pool_sizes(config: NodeConfig) -> Mapping[Pool, int]:
    waiting_for_disks = dict.fromkeys((Pool.BACKGROUND, Pool.READ, Pool.SYNC), config.background_threads)
    # OpenSSL computes without the interpreter.
    handshakes = {Pool.HANDSHAKE: min(4, os.cpu_count() or 1)}
    return waiting_for_disks | _INTERPRETED | handshakes | {Pool.COMPACTION: config.log_cleaner_threads}
