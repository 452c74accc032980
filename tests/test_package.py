"""The package as a whole: what importing it costs, the map of its packages, and the promises of the docs."""

import ast
import importlib
import importlib.util
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import grimp
import pytest
from importlinter.api import read_configuration

import evalign as ev

SOURCE = Path(ev.__file__).parent
ROOT = Path(__file__).parents[1]
PACKAGES = sorted(path.parent.name for path in SOURCE.glob("*/__init__.py"))


def test_importing_evalign_stays_light():
    """Nothing heavy beyond what PyTorch and scikit-learn import by themselves."""
    heavy = [
        "ap_perf",
        "lightgbm",
        "lightning",
        "matplotlib",
        "numba",
        "optuna",
        "pandas",
        "plotly",
        "skorch",
        "transformers",
    ]
    code = (
        "import sys, torch, sklearn.metrics, sklearn.preprocessing; before = set(sys.modules); "
        "import evalign; [getattr(evalign, name) for name in evalign.__all__]; "
        f"print([name for name in {heavy!r} if name in set(sys.modules) - before])"
    )
    imported = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert imported.stdout.strip() == "[]"


def test_imports_keep_to_the_contracts():
    """The layers and the rule on private modules, as in `make lint`; the contracts are in pyproject.toml."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(SOURCE.parent)])}
    command = [Path(sys.executable).with_name("lint-imports"), "--no-cache"]
    linted = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert linted.returncode == 0, linted.stdout


def test_contributing_shows_the_layers_in_their_order():
    contracts = read_configuration(str(ROOT / "pyproject.toml"))["contracts_options"]
    layers = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    section = (ROOT / "CONTRIBUTING.md").read_text().split("src/evalign/\n")[1].split("```")[0]
    assert re.findall(r"^  (\w+)/ ", section, re.M) == layers[::-1]


@pytest.mark.parametrize(
    ("importer", "imported", "allowed"),
    [
        ("evalign.cli", "evalign.metrics", True),
        ("evalign.cli", "evalign.metrics._named", False),
        ("evalign.metrics", "evalign.metrics._named", True),
        ("evalign.metrics._registry", "evalign.metrics._named", True),
        ("evalign.metrics", "evalign._errors", True),
    ],
)
def test_private_modules_are_imported_only_within_their_package(importer, imported, allowed):
    spec = importlib.util.spec_from_file_location("import_rules", ROOT / "tools" / "import_rules.py")
    rules = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(rules)
    graph = grimp.ImportGraph()
    graph.add_import(importer=importer, imported=imported)
    contract = rules.PrivateModules("private", session_options={}, contract_options={})
    check = contract.check(graph, verbose=False)
    assert check.kept is allowed
    assert check.metadata["violations"] == ([] if allowed else [f"{importer} imports {imported}"])


@pytest.mark.parametrize("package", ["evalign", *(f"evalign.{name}" for name in PACKAGES)])
def test_public_names_exist_and_are_documented(package):
    module = importlib.import_module(package)
    for name in module.__all__:
        value = getattr(module, name)
        if inspect.isclass(value) or inspect.isroutine(value) or inspect.ismodule(value):
            assert value.__doc__, name


def test_the_readme_lists_every_metric_and_every_loss():
    text = (ROOT / "README.md").read_text()
    for name in ev.metrics.NAMED:
        assert f"| `{name}" in text, name
    for name in ev.losses.__all__:
        if name.endswith("Loss"):
            assert f".{name}(" in text, name


def test_no_eval_exec_or_pickle_in_the_source():
    """Only one module may read pickles, with its own unpickler; its white list is tested separately."""
    reader = SOURCE / "papers" / "data" / "_batches.py"
    unpicklers = {"pickle", "_pickle", "cPickle", "cloudpickle", "dill", "joblib.numpy_pickle", "shelve"}
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in ("eval", "exec", "compile", "__import__"), path
            if isinstance(node, ast.Import) and path != reader:
                assert unpicklers.isdisjoint(alias.name for alias in node.names), path
            if isinstance(node, ast.ImportFrom):
                assert node.module not in unpicklers, path
            if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "pickle":
                assert node.attr in ("_Unpickler", "UnpicklingError"), path
