"""CRC-32C, from the extension module of the crc32c package alone.

Importing the package itself looks up its version, which would add about 20 ms to the start of a node.
"""

from collections.abc import Callable
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec


def _load() -> Callable[..., int]:
    package = find_spec("crc32c")
    extension = package and PathFinder.find_spec("crc32c._crc32c", package.submodule_search_locations)
    if extension is None or extension.loader is None:
        from crc32c import crc32c as from_the_package

        return from_the_package
    module = module_from_spec(extension)
    extension.loader.exec_module(module)
    found: Callable[..., int] = module.crc32c
    return found


crc32c = _load()
