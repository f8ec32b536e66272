"""Reads topics from log directories or brokers as Arrow columns, with compiled kernels.

It is an ordinary client and does not depend on nodes. It needs `pip install odradek[arrow]` and is imported on first
use, because numba and pyarrow take a second to import.
"""
