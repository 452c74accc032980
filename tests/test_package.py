"""The package as a whole: what importing it costs, the map, and that the docs' promises hold."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import evalign as ev

SOURCE = Path(ev.__file__).parent
#: A package imports only from packages above it (CONTRIBUTING.md).
MAP = [
    "metrics", "softsets", "losses", "training", "decisions", "boosting", "networks", "datasets",
    "estimators", "selection", "tables", "reports", "papers", "cli",
]  # fmt: skip


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
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


@pytest.mark.parametrize("package", MAP)
def test_packages_import_only_what_stands_above_them(package):
    allowed = {"_errors", "_files", "_torch", *MAP[: MAP.index(package) + 1]}
    for path in (SOURCE / package).glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("evalign"):
                parts = node.module.split(".")
                names = {parts[1]} if len(parts) > 1 else {alias.name for alias in node.names}
                assert names <= allowed, f"{path.name} imports {names}"


def test_every_package_is_on_the_map():
    assert {path.parent.name for path in SOURCE.glob("*/__init__.py")} == set(MAP)


@pytest.mark.parametrize("package", ["evalign", *(f"evalign.{name}" for name in MAP)])
def test_public_names_exist_and_are_documented(package):
    module = importlib.import_module(package)
    for name in module.__all__:
        value = getattr(module, name)
        if not isinstance(value, dict | tuple):
            assert value.__doc__, name


def test_the_readme_lists_every_metric_and_every_loss():
    readme = SOURCE.parents[1] / "README.md"
    if not readme.exists():
        pytest.skip("not a source checkout")
    text = readme.read_text()
    for name in ev.metrics.NAMED:
        assert f"| `{name}" in text, name
    for name in ev.losses.__all__:
        if name.endswith("Loss"):
            assert f".{name}(" in text, name


def test_no_eval_exec_or_pickle_in_the_source():
    """Only one module may read pickles: with its own unpickler, whose white list has tests of its own."""
    reader = SOURCE / "datasets" / "_batches.py"
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
