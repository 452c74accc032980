"""The documentation as a site: every page is in the navigation, and every name of the API page exists."""

import ast
import re
from importlib.util import find_spec
from pathlib import Path

from mkdocs.config import load_config

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"


def pages(nav):
    """The files that a navigation lists, in order."""
    if isinstance(nav, str):
        return [nav]
    entries = nav.values() if isinstance(nav, dict) else nav
    return [page for entry in entries for page in pages(entry)]


def test_every_page_is_in_the_navigation_once():
    config = load_config(str(ROOT / "mkdocs.yml"))
    config.plugins.run_event("config", config)
    written = [path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")]
    assert sorted(pages(config.nav)) == sorted(written)


def public_names(module):
    """The names in `__all__`, else all functions and classes; not imported, since the adapters are slow."""
    names = set()
    for node in ast.parse(Path(find_spec(module).origin).read_text()).body:
        if isinstance(node, ast.Assign) and node.targets[0].id == "__all__":
            return set(ast.literal_eval(node.value))
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
    return names


def test_every_name_of_the_api_page_exists_and_is_public():
    text = (DOCS / "api.md").read_text()
    sections = re.findall(r"^::: (\S+)\n    options:\n((?:      .*\n)+)", text, re.M)
    assert len(sections) == text.count(":::")
    for module, options in sections:
        members = set(re.findall(r"\w+", options.partition("members:")[2]))
        assert members, module
        assert members <= public_names(module), module
