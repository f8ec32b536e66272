"""Functions of a pipeline: found without being run, run without being trusted to work."""

import subprocess
import sys
from pathlib import Path

import pytest

from odradek.pipelines.jobs.pipeline.definition import parse_pipeline
from odradek.pipelines.jobs.pipeline.functions import PythonFunction, find_function, load_function, load_functions
from odradek.text.errors import UserError

pytestmark = pytest.mark.needs("yaml")

SOURCE = """\
print("this file has run")

def clean(orders, limit=5):
    return orders

def both(*views):
    return views[0]

async def later(orders):
    return orders

def named(orders, *, limit):
    return orders
"""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    found = tmp_path / "pipeline"
    (found / "shop").mkdir(parents=True)
    (found / "functions.py").write_text(SOURCE)
    (found / "shop" / "cleaning.py").write_text(SOURCE)
    (tmp_path / "outside.py").write_text(SOURCE)
    (found / "link.py").symlink_to(tmp_path / "outside.py")
    (found / "broken.py").write_text("def clean(orders):\n    return (\n")
    (found / "binary.py").write_bytes(b"\x00\xff")
    (found / "deep.py").write_text("(" * 5000)
    return found


@pytest.mark.parametrize(
    "text", ["functions.py:clean", "functions:clean", "shop.cleaning:both", "shop/cleaning.py:clean"]
)
def test_find_function_executes_no_code(directory: Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    found = find_function(text, ("orders",), directory)
    assert found.file.is_relative_to(directory) and found.views == ("orders",)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("functions.py", "does not have the form"),
        ("functions.py:", "does not have the form"),
        ("functions.py:clean()", "does not have the form"),
        ("functions.py:os.system", "does not have the form"),
        ("functions.py:cleen", "functions.py has no function 'cleen', did you mean 'clean'?"),
        ("functions.py:later", "is async"),
        ("functions.py:named", "requires the keyword argument 'limit'"),
        ("nothing.py:clean", "has no file 'nothing.py'"),
        ("os:system", "has no file 'os.py'"),
        ("shop:clean", "has no file 'shop.py'"),
        ("no module:clean", "is neither a file"),
        ("../outside.py:clean", "is outside the pipeline's directory"),
        ("link.py:clean", "is outside the pipeline's directory"),
        ("/etc/functions.py:clean", "is outside the pipeline's directory"),
        ("broken.py:clean", "broken.py, line 2: '(' was never closed"),
        ("binary.py:clean", "binary.py"),
        ("deep.py:clean", "deep.py"),
    ],
)
def test_invalid_input_is_reported(directory: Path, capsys: pytest.CaptureFixture[str], text: str, said: str) -> None:
    with pytest.raises(ValueError) as raised:
        find_function(text, ("orders",), directory)
    assert said in str(raised.value) and "\n" not in str(raised.value)
    assert capsys.readouterr().out == ""


def test_the_number_of_views_must_match_the_function(directory: Path) -> None:
    for views, name in ((("a",), "clean"), (("a", "b"), "clean"), (("a", "b", "c"), "both")):
        find_function(f"functions:{name}", views, directory)
    with pytest.raises(ValueError, match="line 3, takes 1 to 2 DataFrames, but `from` lists 3"):
        find_function("functions:clean", ("a", "b", "c"), directory)


def test_a_pipeline_uses_functions_as_transformations(directory: Path) -> None:
    form = {
        "name": "p",
        "sources": {"orders": {"topic": "orders"}, "products": {"topic": "products"}},
        "transformations": {
            "good": {"python": "functions:clean", "from": "orders"},
            "joined": {"python": "functions:both", "from": ["good", "products"]},
        },
        "sinks": {"out": {"from": "joined", "topic": "out"}},
    }
    found = parse_pipeline(form, directory=directory).transformations["joined"]
    assert isinstance(found, PythonFunction) and found.views == ("good", "products")
    form["transformations"] = {"joined": {"python": "functions:bot", "from": "orders"}}
    with pytest.raises(UserError, match=r"transformations\.joined\.python: functions.py has no function 'bot'"):
        parse_pipeline(form, directory=directory)


def test_a_function_file_is_executed_once_until_it_changes(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = find_function("functions:clean", ("orders",), directory)
    assert load_function(found)(7) == 7
    load_function(find_function("functions:both", ("orders",), directory))
    assert capsys.readouterr().out == "this file has run\n"
    found.file.write_text("def clean(orders):\n    return 8\n")
    assert load_function(found)(7) == 8


def test_functions_are_pickled_by_value(directory: Path) -> None:
    from pyspark import cloudpickle

    source = "FACTOR = 3\ndef times(n):\n    return n * FACTOR\ndef f(a):\n    return times\n"
    (directory / "udfs.py").write_text(source)
    sent = cloudpickle.dumps(load_function(find_function("udfs:f", ("orders",), directory))(None))
    (directory / "udfs.py").unlink()
    reading = f"import pickle; print(pickle.loads(bytes.fromhex({sent.hex()!r}))(7))"
    read = subprocess.run([sys.executable, "-c", reading], capture_output=True, text=True)
    assert read.stdout == "21\n", read.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("\nimport nothing_of_that_name", "line 2: ModuleNotFoundError: No module named"),
        ("1 / 0", "line 1: ZeroDivisionError: division by zero"),
        ("raise SystemExit", "line 1: SystemExit"),
        ("def clean(orders): ...\nclean = 5", "is not a function after the file has run"),
    ],
)
def test_errors_of_user_code_are_one_line(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "functions.py"
    file.write_text(text)
    function = PythonFunction(file=file, name="clean", views=("orders",))
    with pytest.raises(UserError, match=r"^transformations\.good: ") as raised:
        load_functions({"good": function, "other": "SELECT 1"})
    assert said in str(raised.value) and "\n" not in str(raised.value)
