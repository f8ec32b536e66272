"""Reports words that user-facing text must not contain. `make check` runs it.

It reads the Markdown and YAML files of the docs and, in `src/odradek`, the strings that users see: every string literal
of the user-facing packages, help texts, log messages and error messages. Docstrings and comments are left to the
reviewer.
Exempt a line with `words: allow` in a comment on it.
"""

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parent.parent
EXEMPTION: Final = "words: allow"

PHRASES: Final = {
    r"who(m)?ever": "name the client, the broker or the user",
    r"nobody|somebody|everybody": "name the client, the broker or the user",
    r"(is|are|was|were|be|been|being) told|tells?( of)?|told": "is notified, receives, reports",
    r"hears?|heard|hear of": "is notified, receives",
    r"go(es)? on|went on|gone on|go on from": "continues, keeps running; resumes from",
    r"mend(s|ed|ing)?": "fix",
    r"knock(s|ed|ing)?|shut door": "probe, port, connection refused",
    r"taken up": "applied",
    r"parked": "pending",
    r"evening out|evened out": "rebalancing",
    r"on the move": "reassignment",
    r"answer(s|ed|ing)?": "response, result; responds",
    r"asks?(?! (the|your) ([a-z']+ )?administrator)( for)?|asked|asking": "requests; query",
    r"cuts?|cut off|cutting": "truncate; disconnect; split",
    r"silent": "unresponsive, idle; session expired",
    r"hung up|hangs up": "closed by client",
    r"let in|lets? people in|come in|who may come in": "authenticate, log in",
    r"may do what": "authorization",
    r"the cluster's own": "internal topics",
    r"all is well": "Healthy",
    r"not understood": "invalid",
    r"so many|the most of": "number of, max",
    r"anew": "restart from the beginning; again",
    r"lost (the )?connection|connection (is|was) lost": "disconnected",
    r"one word more|the way of a|is put through": "see words.md",
    r"the bars? (is|are|was|were|of)|every bar": "target",
    r"sees to it|wants to be|for want of": "plain words",
    r"lest|yonder|ere|heed(s|ed)?|by and by|for ever|in vain": "plain words",
    r"for good": "permanently",
    r"deaf|mute|estranged|ailing": "name the direction that is blocked; name the problem",
    r"(deleted and|was|were|is|are) created again": "recreated",
    r"decision topic": "decision log",
}
_PATTERN: Final = re.compile("|".join(rf"\b(?:{phrase})\b" for phrase in PHRASES), re.IGNORECASE)

PAGES: Final = ("README.md", "CHANGELOG.md", "ROADMAP.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md")
_PAGE_SUFFIXES: Final = (".md", ".yml")
USER_FACING: Final = ("cli", "console", "text", "local", "pipelines", "testing", "config")
"""Packages of which every string literal is user-facing."""
_LOG_METHODS: Final = frozenset({"debug", "info", "warning", "error", "exception", "critical", "log"})
_LOGGERS: Final = re.compile(r"(^|_)log(ger)?$", re.IGNORECASE)


class Finding(NamedTuple):
    path: Path
    line: int
    words: str
    text: str

    def __str__(self) -> str:
        shown = self.path.relative_to(ROOT) if self.path.is_relative_to(ROOT) else self.path
        return f"{shown}:{self.line}: {self.words!r} → {_advice(self.words)}: {self.text}"


def main(arguments: list[str]) -> int:
    paths = [Path(argument).resolve() for argument in arguments] or [*_pages(), *_modules()]
    findings = [finding for path in paths for finding in check_file(path)]
    for finding in findings:
        print(finding)
    if findings:
        print(f"{len(findings)} findings: write as Kafka's documentation does, or exempt the line with `{EXEMPTION}`")
    return 1 if findings else 0


def check_file(path: Path) -> list[Finding]:
    text = path.read_text()
    if path.suffix in _PAGE_SUFFIXES:
        return list(_check_page(path, text))
    if path.suffix == ".py":
        return list(_check_module(path, text))
    return []


def find_words(text: str) -> list[str]:
    return [match[0] for match in _PATTERN.finditer(text)]


def _pages() -> Iterable[Path]:
    docs = ROOT / "docs"
    return [page for name in PAGES if (page := ROOT / name).exists()] + sorted(
        [*docs.rglob("*.md"), *docs.rglob("*.yml")]
    )


def _modules() -> Iterable[Path]:
    return sorted((ROOT / "src" / "odradek").rglob("*.py"))


def _check_page(path: Path, text: str) -> Iterator[Finding]:
    for number, line in enumerate(text.splitlines(), 1):
        if EXEMPTION not in line:
            for words in find_words(line):
                yield Finding(path, number, words, line.strip()[:120])


def _check_module(path: Path, source: str) -> Iterator[Finding]:
    lines = source.splitlines()
    for node in _user_facing_strings(path, ast.parse(source)):
        assert isinstance(node.value, str)
        if not re.search(r"\s", node.value):
            continue  # an identifier, not text
        own_lines = lines[node.lineno - 1 : node.end_lineno]
        if any(EXEMPTION in line for line in own_lines):
            continue
        for words in find_words(node.value):
            yield Finding(path, node.lineno, words, " ".join(node.value.split())[:120])


def _user_facing_strings(path: Path, tree: ast.Module) -> Iterable[ast.Constant]:
    found: dict[int, ast.Constant] = {}
    docstrings = _docstrings(tree)
    if _is_user_facing(path):
        found |= {id(node): node for node in _strings(tree) if id(node) not in docstrings}
        found |= {id(node): node for node in _help_texts(tree)}
    for node in ast.walk(tree):
        if (isinstance(node, ast.Raise) and node.exc is not None) or (isinstance(node, ast.Call) and _logs(node)):
            found |= {id(string): string for string in _strings(node)}
    return sorted(found.values(), key=lambda node: (node.lineno, node.col_offset))


def _is_user_facing(path: Path) -> bool:
    package = ROOT / "src" / "odradek"
    return path.is_relative_to(package) and path.relative_to(package).parts[0] in USER_FACING


def _strings(tree: ast.AST) -> Iterator[ast.Constant]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node


def _docstrings(tree: ast.Module) -> set[int]:
    """Every string that is a statement of its own: docstrings, also those of attributes."""
    return {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}


def _help_texts(tree: ast.Module) -> Iterator[ast.Constant]:
    """Docstrings of commands: typer prints them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and (node.name == "command" or any(map(_is_command, node.decorator_list))):
            first = node.body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                yield first.value


def _is_command(decorator: ast.expr) -> bool:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return isinstance(called, ast.Attribute) and called.attr in ("command", "callback")


def _logs(call: ast.Call) -> bool:
    function = call.func
    if not isinstance(function, ast.Attribute) or function.attr not in _LOG_METHODS:
        return False
    owner = function.value
    name = owner.id if isinstance(owner, ast.Name) else owner.attr if isinstance(owner, ast.Attribute) else ""
    return bool(_LOGGERS.search(name))


def _advice(words: str) -> str:
    matches = (advice for phrase, advice in PHRASES.items() if re.fullmatch(phrase, words, re.IGNORECASE))
    return next(matches, "see CONTRIBUTING.md")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
