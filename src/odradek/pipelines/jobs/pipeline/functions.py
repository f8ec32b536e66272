"""Transformations in Python: functions from DataFrames to a DataFrame, in files of the pipeline's directory.

Files are parsed when the pipeline is read and executed only when it runs, so that `pipeline status` executes no user
code. Files outside the pipeline's directory are never executed.
"""

import ast
import importlib.util
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from odradek.text.errors import UserError, nearest, with_full_stop

_NAMED: Final = re.compile(r"([^:]+):([^\W\d]\w*)")
_MODULE: Final = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
_FILE_BYTES_MAX: Final = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonFunction:
    file: Path
    name: str
    views: tuple[str, ...]
    """Its arguments, in this order."""


def find_function(text: str, views: tuple[str, ...], directory: Path) -> PythonFunction:
    """Find `file.py:function` or `module:function` without executing it. Raises ValueError with the reason."""
    parts = _NAMED.fullmatch(text)
    if parts is None:
        raise ValueError(f"{text!r} does not have the form file.py:function or module:function")
    file = _file(parts[1], directory)
    found = _definition(_parse_file(file), parts[2], file)
    _check_arguments(found, len(views), file)
    return PythonFunction(file=file, name=parts[2], views=views)


def load_function(function: PythonFunction) -> Callable[..., Any]:
    """Execute the file and return the function. Raises UserError."""
    try:
        module = _module(function.file, function.file.stat().st_mtime_ns)
    # User code may raise anything, including SystemExit.
    except (Exception, SystemExit) as error:  # noqa: BLE001
        raise UserError(with_full_stop(error_line(error, [function.file]))) from None
    found = getattr(module, function.name, None)
    if not callable(found):
        raise UserError(f"{function.name!r} in {function.file.name} is not a function after the file has run.")
    return found  # type: ignore[no-any-return]


def load_functions(transformations: Mapping[str, str | PythonFunction]) -> dict[str, Callable[..., Any]]:
    """Load the transformations that are functions. Raises UserError.

    Call it before Spark starts, to report errors early.
    """
    loaded = {}
    for name, one in transformations.items():
        if isinstance(one, PythonFunction):
            try:
                loaded[name] = load_function(one)
            except UserError as error:
                raise UserError(f"transformations.{name}: {error}") from None
    return loaded


def error_line(error: BaseException, files: Iterable[Path]) -> str:
    """Describe the error in one line, with the last line number in these files."""
    known = {str(one) for one in files}
    frames = [one for one in traceback.extract_tb(error.__traceback__) if one.filename in known]
    where = f"{Path(frames[-1].filename).name}, line {frames[-1].lineno}: " if frames else ""
    reason = " ".join(str(error).split())
    return f"{where}{type(error).__name__}" + (f": {reason}" if reason else "")


def _file(named: str, directory: Path) -> Path:
    if not named.endswith(".py"):
        if not _MODULE.fullmatch(named):
            raise ValueError(f"{named!r} is neither a file like functions.py nor a module")
        named = f"{named.replace('.', '/')}.py"
    # Resolve symbolic links.
    file, home = (directory / named).resolve(), directory.resolve()
    if not file.is_relative_to(home):
        raise ValueError(f"{named!r} is outside the pipeline's directory")
    if not file.is_file():
        raise ValueError(f"the pipeline's directory has no file {named!r}")
    return file


def _parse_file(file: Path) -> ast.Module:
    try:
        if file.stat().st_size > _FILE_BYTES_MAX:
            raise ValueError(f"larger than {_FILE_BYTES_MAX:,} bytes")
        return ast.parse(file.read_bytes(), file.name)
    except SyntaxError as error:
        raise ValueError(f"{file.name}, line {error.lineno}: {error.msg}") from None
    except OSError as error:
        raise ValueError(f"{file.name} cannot be read: {error.strerror}") from None
    except (RecursionError, MemoryError):
        raise ValueError(f"{file.name} is nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"{file.name}: {error}") from None


def _definition(module: ast.Module, name: str, file: Path) -> ast.FunctionDef:
    functions = {one.name: one for one in module.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)}
    found = functions.get(name)
    if found is None:
        meant = nearest(name, tuple(functions))
        perhaps = f", did you mean {meant!r}?" if meant else ""
        raise ValueError(f"{file.name} has no function {name!r}{perhaps}")
    if isinstance(found, ast.AsyncFunctionDef):
        raise ValueError(f"{name!r} in {file.name} is async, use a plain function")
    return found


def _check_arguments(function: ast.FunctionDef, given: int, file: Path) -> None:
    arguments = function.args
    most = len(arguments.posonlyargs) + len(arguments.args)
    least = most - len(arguments.defaults)
    if not least <= given <= most and not (arguments.vararg is not None and given >= least):
        wanted = str(least) if least == most else f"{least} to {most}"
        raise ValueError(
            f"{function.name!r} in {file.name}, line {function.lineno}, takes {wanted} DataFrames, but `from` lists "
            f"{given}"
        )
    missing = [one.arg for one, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if not default]
    if missing:
        raise ValueError(
            f"{function.name!r} in {file.name} requires the keyword argument {missing[0]!r}, give it a default"
        )


@lru_cache(maxsize=64)
def _module(file: Path, modified_ns: int) -> ModuleType:
    """Execute the file once until it changes. Pickle its functions by value, because executors lack the file."""
    from pyspark.cloudpickle import register_pickle_by_value

    name = f"odradek_pipeline_{file.stem}_{abs(hash(file)):x}"
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    return module
