"""Prints the Python interpreter with which `make run` creates its environment: `python3`, or one that is faster.

An interpreter that was built with optimizations is preferred, if it is new enough and can create environments. This
program runs with any Python 3, which may be older than Odradek needs.
"""

import os
import shutil
import subprocess
import sys

CANDIDATES = ("python3", "/usr/bin/python3", "/usr/local/bin/python3", "python3.13", "python3.12", "python3.11")
DEFAULT = "python3"
RULES = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "src/odradek/local/interpreter.py")
CHECK = """
import sys
assert sys.version_info >= (3, 11)
import ensurepip, runpy, venv
print(runpy.run_path(sys.argv[1])["is_optimized"]())
"""


def find_python(*candidates: str) -> str:
    usable = None
    for candidate in candidates:
        path = shutil.which(candidate)
        if path is None:
            continue
        check = subprocess.run([path, "-c", CHECK, RULES], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        if check.returncode == 0:
            if check.stdout.split() == [b"True"]:
                return candidate
            usable = usable or candidate
    return usable or DEFAULT


if __name__ == "__main__":
    sys.stdout.write(find_python(*CANDIDATES) + "\n")
