"""Draw the losses of one row over the probability of class 1, for a positive and a negative row.

Run `python docs/figures/losses.py`, which writes losses.png to the same folder. The share of positives is
0.5, as in figure 1 of Lee et al. (2021).
"""

from pathlib import Path

import matplotlib
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image
from torch import nn

from evalign.losses import FocalLoss, MAELoss, SurrogateFBetaLoss


def surrogate(beta: float, q: float = 0.0) -> SurrogateFBetaLoss:
    return SurrogateFBetaLoss(beta, positive_rate=0.5, q=q, class_balanced=False)


#: Label, loss and line style. Cross-entropy is drawn wide, since other curves coincide with it.
CURVES = (
    ("cross-entropy", nn.BCEWithLogitsLoss(), {"color": "0.72", "linewidth": 6}),
    ("focal, gamma 2", FocalLoss(gamma=2.0, task="binary"), {"color": "#CC79A7", "linestyle": "-."}),
    ("MAE", MAELoss(task="binary"), {"color": "#000000", "linestyle": ":"}),
    ("β = 0.5, q = 0", surrogate(0.5), {"color": "#E69F00"}),
    ("β = 1, q = 0", surrogate(1.0), {"color": "#0072B2", "linestyle": (0, (6, 3))}),
    ("β = 2, q = 0", surrogate(2.0), {"color": "#009E73", "linestyle": (0, (2, 3))}),
    ("β = 1, q = 0.5", surrogate(1.0, q=0.5), {"color": "#D55E00"}),
)


def draw_panel(axes: Axes, target: float) -> None:
    p = torch.linspace(0.001, 0.999, 400, dtype=torch.float64)
    y = torch.tensor([target], dtype=torch.float64)
    for label, loss, style in CURVES:
        axes.plot(p, [loss(logit.view(1), y) for logit in p.logit()], label=label, **style)
    axes.axhline(0, color="0.85", linewidth=0.8, zorder=0)
    axes.set(xlim=(0, 1), ylim=(-1.6, 4.0), xticks=[0, 0.5, 1], yticks=range(-1, 5))
    axes.set_xlabel("probability p of class 1")
    axes.set_xticklabels(["0", "0.5", "1"])
    axes.spines[["top", "right"]].set_visible(False)


def main() -> None:
    matplotlib.rcdefaults()
    matplotlib.rcParams.update({"font.size": 10, "lines.linewidth": 1.9, "axes.titlesize": 10.5})
    figure = Figure(figsize=(7.4, 3.9), layout="constrained")
    positive, negative = figure.subplots(1, 2, sharey=True)
    for axes, target in ((positive, 1.0), (negative, 0.0)):
        draw_panel(axes, target)
    positive.set(title="positive row, y = 1", ylabel="loss of the row")
    negative.set_title("negative row, y = 0")
    at = {"xy": (0.1, 2.303), "xytext": (0.24, 2.75), "arrowprops": {"arrowstyle": "-", "linewidth": 0.8}}
    positive.annotate("cross-entropy and the\nsurrogate with q = 0,\nwhatever β", **at)
    lines, labels = negative.get_legend_handles_labels()
    style = {"frameon": False, "handlelength": 2.8, "alignment": "left", "loc": "upper left"}
    rows = negative.legend(lines[:3], labels[:3], title="Common losses", bbox_to_anchor=(1.02, 1.0), **style)
    negative.legend(lines[3:], labels[3:], title="Surrogate F-beta", bbox_to_anchor=(1.02, 0.66), **style)
    negative.add_artist(rows)
    path = Path(__file__).with_suffix(".png")
    figure.savefig(path, dpi=180, metadata={"Software": None})
    Image.open(path).convert("RGB").quantize(128).save(path, optimize=True)  # a third of the size


if __name__ == "__main__":
    main()
