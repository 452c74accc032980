"""A hook of MkDocs that lists the pages of reproduced tables and figures, so that nobody has to."""

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig

SCALES = ("full", "medium", "small")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add every `results/NAME-SCALE.md` to "Results", by the name that `evalign reproduce` takes."""
    pages = sorted(Path(config.docs_dir, "results").glob("*.md"))
    entries = [
        {f"{page.stem.removesuffix(f'-{scale}')} ({scale})": f"results/{page.name}"}
        for page in pages
        for scale in SCALES
        if page.stem.endswith(f"-{scale}")
    ]
    results = next(entry["Results"] for entry in config.nav if "Results" in entry)
    results.append({"Tables and figures": entries})
    return config
