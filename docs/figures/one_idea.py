"""Draw the one idea with numbers: from logits to the confusion matrix, macro F1 and the cost matrix.

Run `python docs/figures/one_idea.py`, which writes one_idea.png to the same folder. The eight rows are those
of the page docs/guide/one-idea.md.
"""

from pathlib import Path

import matplotlib
import torch
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from PIL import Image
from torch import Tensor

from evalign import metrics
from evalign.softsets import HardStep, soft_assign, soft_confusion

LOGITS = torch.tensor([
    [2.0, 0.5, 0.0], [1.5, 0.2, 0.9], [1.0, 1.4, -0.5], [2.4, 0.3, 0.6],
    [0.2, 1.6, 0.4], [1.2, 0.8, 0.1], [0.3, 0.2, 1.5], [1.1, 0.0, 0.9],
])  # fmt: skip
TARGETS = torch.tensor([0, 0, 0, 0, 1, 1, 2, 2])
BLUE, VERMILLION = "#0072B2", "#D55E00"
AMOUNT = LinearSegmentedColormap.from_list("amount", ["#FFFFFF", BLUE])
SIGNED = LinearSegmentedColormap.from_list("signed", [VERMILLION, "#FFFFFF", BLUE])


def heat(axes: Axes, values: Tensor, form: str, most: float, colours: LinearSegmentedColormap) -> None:
    """Draw a heat map with a number in each cell, in white where the cell is dark."""
    least = -most if colours is SIGNED else 0
    image = axes.imshow(values, cmap=colours, vmin=least, vmax=most, aspect="auto")
    for i, row in enumerate(values.tolist()):
        for j, value in enumerate(row):
            red, green, blue, _ = image.to_rgba(value)
            colour = "white" if 0.3 * red + 0.59 * green + 0.11 * blue < 0.5 else "black"
            axes.text(j, i, format(value, form), ha="center", va="center", color=colour)
    axes.set_xticks(range(3), ["0", "1", "2"])
    axes.set_yticks([])
    axes.tick_params(length=0)


def draw_rows(axes: Axes, values: Tensor, title: str, form: str, *, signed: bool = False) -> None:
    """Draw one line per row of data; its largest value is framed, thick lines separate the true classes."""
    heat(axes, values, form, 2.6 if signed else 1.0, SIGNED if signed else AMOUNT)
    for i, j in enumerate(values.argmax(1).tolist()):
        axes.add_patch(Rectangle((j - 0.47, i - 0.45), 0.94, 0.9, fill=False, linewidth=1.3))
    for i in (TARGETS.diff().nonzero().flatten() + 0.5).tolist():
        axes.axhline(i, color="black", linewidth=2)
    axes.set(title=title, xlabel="class")


def draw_score(axes: Axes, score: float) -> None:
    axes.barh([0], [1], color="0.9")
    axes.barh([0], [score], color=BLUE)
    axes.text(score - 0.03, 0, f"{score:.3f}", ha="right", va="center", color="white")
    axes.set(xlim=(0, 1), xticks=[], yticks=[], title="5. macro F1")
    axes.spines[:].set_visible(False)


def main() -> None:
    matplotlib.rcdefaults()
    matplotlib.rcParams.update({"font.size": 9.5, "axes.titlesize": 10, "axes.linewidth": 0.6})
    f1 = metrics.f1()
    probabilities = LOGITS.softmax(1)
    columns = {f"3. memberships\nT = {t}": soft_assign(probabilities, t) for t in (0.2, 0.02)}
    columns["3. hard decision\n(T → 0)"] = soft_assign(probabilities, step=HardStep())
    confusions = [soft_confusion(memberships, TARGETS, 3) for memberships in columns.values()]

    figure = Figure(figsize=(7.6, 5.7), layout="constrained")
    grid = figure.add_gridspec(3, 5, height_ratios=[8, 4.6, 0.9])
    top = [figure.add_subplot(grid[0, column]) for column in range(5)]
    draw_rows(top[0], LOGITS, "1. logits\n", ".1f", signed=True)
    draw_rows(top[1], probabilities, "2. probabilities\n(softmax)", ".2f")
    for column, (title, memberships) in enumerate(columns.items(), start=2):
        form = ".0f" if "hard" in title else ".2f"
        draw_rows(top[column], memberships, title, form)
        below = figure.add_subplot(grid[1, column])
        heat(below, confusions[column - 2], form, 4.0, AMOUNT)
        below.set(title="4. confusion C", xlabel="predicted class")
        draw_score(figure.add_subplot(grid[2, column]), f1(confusions[column - 2]).item())
    top[0].set_yticks(range(8), [str(y) for y in TARGETS.tolist()])
    top[0].set_ylabel("true class of each row")
    figure.axes[5].set_ylabel("true class")
    figure.axes[5].set_yticks(range(3), ["0", "1", "2"])
    costs = figure.add_subplot(grid[1:, :2])
    heat(costs, f1.gradient(confusions[0]), "+.3f", 0.1, SIGNED)
    costs.set(xlabel="predicted class", ylabel="true class", title="6. cost matrix W = dM/dC, at T = 0.2")
    costs.set_yticks(range(3), ["0", "1", "2"])
    path = Path(__file__).with_suffix(".png")
    figure.savefig(path, dpi=180, metadata={"Software": None})
    Image.open(path).convert("RGB").quantize(128).save(path, optimize=True)  # a third of the size


if __name__ == "__main__":
    main()
