"""Draw what each part of EAST contributes: the differences of docs/results/ablation-medium.csv.

Run `python docs/figures/ablation.py`, which writes ablation.png to the same folder.
"""

import csv
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from PIL import Image

from evalign.papers.tables import TABLES

TABLE = TABLES["ablation"]
RESULTS = Path(__file__).parents[1] / "results" / "ablation-medium.csv"
#: The columns that are shown: colour, marker, and by how much of a row they are moved apart.
COLUMNS = {"F1": ("#0072B2", "o", -0.16), "MCC": ("#E69F00", "s", 0.16)}
ROWS = [row.name for row in TABLE.rows if row.name != TABLE.reference]


def read_differences() -> dict[tuple[str, str, str], tuple[float, float]]:
    """The difference to the reference and its standard error, by dataset, row and column."""
    with RESULTS.open(newline="", encoding="utf-8") as file:
        return {
            (line["dataset"], line["row"], line["column"]): (
                float(line["to_reference"]),
                float(line["to_reference_error"]),
            )
            for line in csv.DictReader(file)
            if line["to_reference"] and line["row"] != TABLE.reference
        }


def draw_panel(
    axes: Axes, differences: dict[tuple[str, str, str], tuple[float, float]], dataset: str
) -> None:
    axes.axvline(0, color="black", linewidth=1)
    for column, (color, marker, shift) in COLUMNS.items():
        shown = [number for number, row in enumerate(ROWS) if (dataset, row, column) in differences]
        means, errors = zip(*(differences[dataset, ROWS[number], column] for number in shown), strict=True)
        places = [number + shift for number in shown]
        style = {"color": color, "marker": marker, "markersize": 4, "linestyle": "", "capsize": 2}
        axes.errorbar(means, places, xerr=errors, label=column, **style)
    axes.set(yticks=range(len(ROWS)), ylim=(len(ROWS) - 0.5, -0.5), xlabel="difference to EAST")
    axes.set_yticklabels(ROWS)
    axes.tick_params(axis="y", length=0)
    axes.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.grid(color="0.93")
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)


def main() -> None:
    matplotlib.rcdefaults()
    matplotlib.rcParams.update({"font.size": 9.5, "axes.titlesize": 10.5})
    differences = read_differences()
    known = {dataset for dataset, _, _ in differences}
    data = [one for one in TABLE.data if one.name in known]
    figure = Figure(figsize=(2.2 + 2.1 * len(data), 4.6), layout="constrained")
    panels = figure.subplots(1, len(data), sharey=True, squeeze=False)[0]
    for axes, one in zip(panels, data, strict=True):
        draw_panel(axes, differences, one.name)
        axes.set_title(one.title)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False)
    path = Path(__file__).with_suffix(".png")
    figure.savefig(path, dpi=180, metadata={"Software": None})
    Image.open(path).convert("RGB").quantize(128).save(path, optimize=True)  # a third of the size


if __name__ == "__main__":
    main()
