"""A contract for `lint-imports`: a module named `_x` is imported only within its own package."""

from __future__ import annotations

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, output


class PrivateModules(Contract):
    """A private module, and anything below it, is imported only by its package and the modules in it."""

    type_name = "private"

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        """Collect every import of a private module from outside its package."""
        violations = [
            f"{importer} imports {imported}"
            for imported in sorted(graph.modules)
            for importer in sorted(graph.find_modules_that_directly_import(imported))
            if not _may_import(importer, imported)
        ]
        return ContractCheck(kept=not violations, metadata={"violations": violations})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print one line per violation."""
        for line in check.metadata["violations"]:
            output.print_error(line)


def _may_import(importer: str, imported: str) -> bool:
    parts = imported.split(".")
    private = next((at for at, part in enumerate(parts) if part.startswith("_") and part != "__main__"), None)
    if private is None:
        return True
    package = ".".join(parts[:private])
    return importer == package or importer.startswith(f"{package}.")
