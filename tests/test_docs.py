"""The documentation as a site: every page is in the navigation, and every name, command and option exists."""

import ast
import re
import shlex
from importlib.util import find_spec
from pathlib import Path

import pandas as pd
import pytest
from mkdocs.config import load_config

from evalign.cli._app import build_command

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


def console_commands(page):
    """The words after `evalign` of every command in the console blocks of a page."""
    for block in re.findall(r"```console\n(.*?)```", page.read_text(), re.S):
        for line in re.findall(r"^\$ (.*)$", block.replace("\\\n", " "), re.M):
            words = shlex.split(line, comments=True)
            if "evalign" in words:
                words = words[words.index("evalign") + 1 :]
                end = next((place for place, word in enumerate(words) if word in ("|", ">")), len(words))
                yield words[:end]


PAGES = [page for page in sorted(DOCS.rglob("*.md")) if any(console_commands(page))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(DOCS).as_posix())
def test_every_command_of_a_page_is_valid(page):
    commands = build_command().commands
    for name, *arguments in console_commands(page):
        commands[name].make_context(name, arguments)  # reads the arguments as a run would, and does not run


def test_every_option_of_the_command_line_page_exists():
    sections = re.split(r"^## ", (DOCS / "guide/command-line.md").read_text(), flags=re.M)[1:]
    by_title = {section.splitlines()[0].lower(): section for section in sections}
    listed = 0
    for name, command in build_command().commands.items():
        rows = re.findall(r"^\| (`--.*?) \| ", by_title.get(name, ""), re.M)
        options = {option for row in rows for option in re.findall(r"--[a-z-]+", row)}
        assert options <= {option for parameter in command.params for option in parameter.opts}, name
        listed += len(options)
    assert listed > 20


def test_the_script_of_the_tutorial_writes_its_tables(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (DOCS / "tutorial.md").read_text()
    exec(re.search(r"```python\n(.*?)```", text, re.S)[1], {})
    shown = re.search(r"\$ head -4 customers.csv\n(.*?)```", text, re.S)[1]
    assert Path("customers.csv").read_text().startswith(shown)
    customers, later, new = (pd.read_csv(f"{name}.csv") for name in ("customers", "later", "new"))
    assert [len(customers), len(later), len(new)] == [4000, 1000, 1000]
    assert list(later) == list(customers) == [*new, "churned"]
