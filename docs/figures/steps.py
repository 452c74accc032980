"""Draw the hard, linear and sigmoid steps: one column per threshold, one row per kind of step.

Run `python docs/figures/steps.py`, which writes steps.png to the same folder.
"""

from pathlib import Path

import matplotlib
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

from evalign.softsets import HardStep, LinearStep, SigmoidStep, Step

THRESHOLDS = (0.2, 0.5, 0.8)
BLACK, ORANGE, SKY, GREEN, BLUE, VERMILLION = "#000000", "#E69F00", "#56B4E9", "#009E73", "#0072B2", "#D55E00"

#: For each row of panels: label, step and line style of its curves.
LINEAR = (
    ("T = 0.4", LinearStep(temperature=0.4), {"color": SKY}),
    ("T = 0.2 (default)", LinearStep(temperature=0.2), {"color": BLUE, "linewidth": 2.4}),
    ("T = 0.1", LinearStep(temperature=0.1), {"color": GREEN}),
    ("T = 0.02", LinearStep(temperature=0.02), {"color": VERMILLION}),
    ("hard", HardStep(), {"color": BLACK, "linestyle": (0, (4, 2)), "linewidth": 1.2}),
)
SIGMOID = (
    ("k = 10 (default)", SigmoidStep(k=10), {"color": ORANGE, "linewidth": 2.4}),
    ("k = 50", SigmoidStep(k=50), {"color": ORANGE, "linestyle": (0, (1, 1))}),
    ("linear, T = 0.2", LinearStep(temperature=0.2), {"color": BLUE}),
    ("hard", HardStep(), {"color": BLACK, "linestyle": (0, (4, 2)), "linewidth": 1.2}),
)


def draw_panel(axes: Axes, threshold: float, curves: tuple[tuple[str, Step, dict], ...]) -> None:
    p = torch.linspace(0, 1, 1001)
    axes.axvline(threshold, color="0.8", linewidth=1)
    axes.axhline(0.5, color="0.8", linewidth=1)
    for label, step, style in curves:
        axes.plot(p, step(p, threshold), label=label, **style)
    axes.plot([threshold], [0.5], "o", color=BLACK, markersize=3.5, zorder=5)
    axes.set(xlim=(0, 1), ylim=(-0.03, 1.03), xticks=[0, threshold, 1], yticks=[0, 0.5, 1])
    axes.set_xticklabels(["0", f"{threshold}", "1"])
    axes.set_yticklabels(["0", "0.5", "1"])
    axes.spines[["top", "right"]].set_visible(False)


def main() -> None:
    matplotlib.rcdefaults()
    matplotlib.rcParams.update({"font.size": 10, "lines.linewidth": 1.7, "axes.titlesize": 10.5})
    figure = Figure(figsize=(7.4, 5.0), layout="constrained")
    rows = figure.subplots(2, 3, sharey=True)
    for axes, threshold in zip(rows[0], THRESHOLDS, strict=True):
        draw_panel(axes, threshold, LINEAR)
        axes.set_title(f"threshold τ = {threshold}")
    for axes, threshold in zip(rows[1], THRESHOLDS, strict=True):
        draw_panel(axes, threshold, SIGMOID)
        axes.set_xlabel("probability p")
    for row, title in zip(rows, ("Linear step", "Sigmoid step"), strict=True):
        row[0].set_ylabel("membership")
        legend = {"title": title, "alignment": "left", "frameon": False, "handlelength": 2.2}
        row[2].legend(loc="center left", bbox_to_anchor=(1.02, 0.5), **legend)
    path = Path(__file__).with_suffix(".png")
    figure.savefig(path, dpi=180, metadata={"Software": None})
    Image.open(path).convert("RGB").quantize(128).save(path, optimize=True)  # a third of the size


if __name__ == "__main__":
    main()
