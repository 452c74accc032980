"""A hook of MkDocs that lists the pages of reproduced tables and figures, so that nobody has to."""

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add every `results/NAME-small.md` to "Results", by the name that `evalign reproduce` takes."""
    pages = sorted(Path(config.docs_dir, "results").glob("*-small.md"))
    entries = [{page.stem.removesuffix("-small"): f"results/{page.name}"} for page in pages]
    results = next(entry["Results"] for entry in config.nav if "Results" in entry)
    results.append({"Tables and figures": entries})
    return config
