"""The number of threads of each pool."""

from collections.abc import Mapping
from typing import Final

from odradek.base.ports import Pool
from odradek.config.node_config import NodeConfig

# Work that needs the interpreter. More threads would not make it faster, only the event loop slower.
_INTERPRETED: Final = {Pool.VALIDATION: 2, Pool.CODEC: 2, Pool.LOADING: 2, Pool.CONTROLLER: 1}


def pool_sizes(config: NodeConfig) -> Mapping[Pool, int]:
    waiting_for_disks = dict.fromkeys((Pool.BACKGROUND, Pool.READ, Pool.SYNC), config.background_threads)
    return waiting_for_disks | _INTERPRETED | {Pool.COMPACTION: config.log_cleaner_threads}
