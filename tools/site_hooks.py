"""What the docs build adds to the pages in `docs/`: the generated references and the root's Markdown files.

mkdocs calls the functions by their names; see `mkdocs.yml`.
"""

import re
from pathlib import Path
from typing import Any, Final

from mkdocs.structure.files import File, Files

from tools.references import cli_reference, config_reference

ROOT: Final = Path(__file__).parent.parent
ROOT_PAGES: Final = ("ARCHITECTURE.md", "ROADMAP.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")

_LINK: Final = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s#]*)(#[^)\s]*)?\)")


def on_files(files: Files, config: Any) -> Files:
    generated = {
        "reference/cli.md": cli_reference(),
        "reference/configs.md": config_reference(),
    }
    for name in ROOT_PAGES:
        if (ROOT / name).exists():
            generated[name] = (ROOT / name).read_text().replace("](docs/", "](")
    for path, text in generated.items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Links to the root's pages stay inside the site; links to source files become plain text."""
    folder = Path(page.file.src_uri).parent
    return _LINK.sub(lambda match: _site_link(match, folder, files), markdown)


def _site_link(match: re.Match[str], folder: Path, files: Files) -> str:
    text, target, anchor = match[1], match[2], match[3] or ""
    if not target or "://" in target or target.startswith("mailto:"):
        return match[0]
    up = "../" * len(folder.parts)
    outside = target.removeprefix(f"{up}../")
    if outside in ROOT_PAGES and target.startswith("../"):
        return f"[{text}]({up}{outside}{anchor})"
    if target.startswith(f"{up}../") or (str(folder) == "." and files.get_file_from_path(target) is None):
        return text
    return match[0]
