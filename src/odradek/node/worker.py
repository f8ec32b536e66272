"""A worker process of a node: `python -m odradek.node.worker POOL`."""

import sys


def main(pool: str) -> None:
    # kio would import hypothesis, which is slow, as in `odradek.cli.main`.
    sys.modules.setdefault("hypothesis", None)  # type: ignore[arg-type]
    from odradek.base.ports import Pool
    from odradek.host.disk import HostDisk
    from odradek.host.worker_loop import run_worker
    from odradek.node.worker_programs import load_program

    run_worker(load_program(Pool(pool)), HostDisk())


if __name__ == "__main__":
    main(sys.argv[1])
