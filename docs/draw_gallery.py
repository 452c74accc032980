"""Run every example at its full size, put its output into gallery.md, and draw it as gallery/NAME.png.

Run `python docs/draw_gallery.py`, or `python docs/draw_gallery.py NAME ...` for some of the examples.
"""

import contextlib
import io
import re
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

DOCS = Path(__file__).parent
EXAMPLES = DOCS.parent / "examples"
GREY, SKY, BLUE, ORANGE = "#999999", "#56B4E9", "#0072B2", "#D55E00"


def read_rows(output: str) -> dict[str, list[float]]:
    """The numbers at the end of each line, by what precedes them."""
    matches = re.finditer(r"^ *(\S.*?)((?:  +-?\d+\.\d+)+)(?= euros|$)", output, re.M)
    return {match[1].strip(): [float(number) for number in match[2].split()] for match in matches}


def draw_bars(axes: Axes, output: str, label: str) -> None:
    """One bar per line; the last one, ours, is blue."""
    rows = {name: values[0] for name, values in read_rows(output).items()}
    colours = [GREY] * (len(rows) - 1) + [BLUE]
    bars = axes.barh(list(rows), list(rows.values()), color=colours, height=0.62)
    axes.bar_label(bars, [f"{value:.{2 if value > 1 else 3}f}" for value in rows.values()], padding=4)
    axes.invert_yaxis()
    axes.set(xlabel=label, xlim=(0, 1.15 * max(rows.values())), xticks=[])
    axes.tick_params(left=False)
    axes.spines[["top", "right", "bottom"]].set_visible(False)


def draw_pairs(axes: Axes, output: str, label: str, names: tuple[str, str]) -> None:
    """Two points per line, joined; the second one, ours, is blue."""
    rows = read_rows(output)
    for place, values in enumerate(rows.values()):
        axes.plot(values, [place] * 2, color="0.8", linewidth=2, zorder=1)
    for column, (name, colour, size) in enumerate(zip(names, (GREY, BLUE), (110, 45), strict=True)):
        values = [row[column] for row in rows.values()]
        axes.scatter(values, range(len(rows)), s=size, color=colour, label=name, zorder=2)
    axes.set_yticks(range(len(rows)), list(rows))
    axes.set(xlabel=label, ylim=(len(rows) - 0.5, -0.5))
    axes.grid(axis="x", color="0.9")
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(left=False)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)


def draw_trade(axes: Axes, output: str) -> None:
    """Recall and precision of each line, and the precision that was asked for."""
    axes.axhspan(0.9, 1.0, color=SKY, alpha=0.2, linewidth=0)
    axes.text(0.705, 0.985, "precision ≥ 0.9", ha="right", va="top", color=BLUE)
    for name, (recall, precision) in read_rows(output).items():
        axes.scatter(recall, precision, s=60, color=BLUE if name == "MetricBooster" else GREY)
        axes.annotate(name, (recall, precision), (8, 0), textcoords="offset points", va="center")
    axes.set(xlabel="recall on new rows", ylabel="precision", xlim=(0.28, 0.71), ylim=(0.85, 1.0))
    axes.spines[["top", "right"]].set_visible(False)


def draw_seeds(axes: Axes, output: str) -> None:
    """One line per seed across the three ways, and their mean."""
    names = ["cross-entropy", "+ tuned threshold", "MetricLoss('f1')"]
    for name, values in read_rows(output).items():
        if len(values) == 3:
            is_mean = name == "mean"
            style = {"color": BLUE if is_mean else "0.75", "linewidth": 3 if is_mean else 1}
            axes.plot(names, values, marker="o", zorder=2 + is_mean, **style)
    axes.set(ylabel="F1 (grey: one seed)", xlim=(-0.25, 2.25))
    axes.spines[["top", "right"]].set_visible(False)


def draw_course(axes: Axes, output: str) -> None:
    """The loss and the score in the course of training."""
    lines = re.findall(r"epoch (\d+): .*? (\d\.\d+), training F1 (\d\.\d+)", output)
    epochs = [int(epoch) for epoch, _, _ in lines]
    for column, name, colour in ((1, "loss over both processes", GREY), (2, "training F1", BLUE)):
        axes.plot(epochs, [float(line[column]) for line in lines], marker="o", color=colour, label=name)
    axes.set(xlabel="epoch", xticks=epochs, ylim=(0, 1))
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))


#: For each example: the size of its picture in inches, and how it is drawn.
CHARTS: dict[str, tuple[tuple[float, float], Callable[[Axes, str], None]]] = {
    "recall_at_precision": ((5.6, 2.9), draw_trade),
    "cost_table": ((5.6, 1.4), lambda axes, text: draw_bars(axes, text, "euros per machine: less is better")),
    "multilabel": (
        (6.6, 1.7),
        lambda axes, text: draw_pairs(axes, text, "macro F1", ("threshold 0.5", "one per label")),
    ),
    "boosters": (
        (6.6, 2.0),
        lambda axes, text: draw_pairs(axes, text, "F1", ("continued on log-loss", "continued on F1")),
    ),
    "ordinal_grading": ((5.6, 1.7), lambda axes, text: draw_bars(axes, text, "quadratic kappa")),
    "legacy_model": ((5.6, 1.4), lambda axes, text: draw_bars(axes, text, "MCC")),
    "text_huggingface": ((5.6, 1.4), lambda axes, text: draw_bars(axes, text, "F1")),
    "lightning_ddp": ((5.6, 1.4), lambda axes, text: draw_bars(axes, text, "F1")),
    "mammography": ((5.6, 2.9), draw_seeds),
    "ddp": ((6.6, 2.2), draw_course),
}


def run_example(name: str) -> str:
    """Run an example as its text says, and return what it prints."""
    launch = ["-m", "torch.distributed.run", "--nproc-per-node", "2"] if name == "ddp" else []
    command = [sys.executable, "-W", "ignore", *launch, str(EXAMPLES / f"{name}.py")]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout  # noqa: S603


def run_segmentation() -> tuple[str, list[torch.nn.Module], Callable[..., Any]]:
    """Run that example here, and return its output, its two networks and the function that draws images."""
    names, models = runpy.run_path(str(EXAMPLES / "segmentation.py")), []
    train, settings = names["train"], names["main"].__globals__
    settings["train"] = lambda *arguments: models.append(train(*arguments)) or models[-1]
    with contextlib.redirect_stdout(io.StringIO()) as output:
        names["main"](small=False)
    return output.getvalue(), models, names["draw_images"]


def draw_segmentation(models: list[torch.nn.Module], draw_images: Callable[..., Any]) -> Figure:
    """The images with the most objects among the first new ones: input, truth, and both predictions."""
    x, y = draw_images(400, 3)
    rows = y[:60].flatten(1).sum(1).topk(3).indices
    with torch.no_grad():
        plain, aligned = (model(x[rows]).argmax(1) for model in models)
    columns = {
        "image": x[rows, 0], "truth": y[rows], "cross-entropy": plain, "MetricLoss('jaccard')": aligned,
    }  # fmt: skip
    figure = Figure(figsize=(6.0, 4.7), layout="constrained")
    for line, axes in zip(range(3), figure.subplots(3, 4), strict=True):
        for place, (title, images) in zip(axes, columns.items(), strict=True):
            place.imshow(images[line], cmap="gray")
            place.set(xticks=[], yticks=[], title=title if line == 0 else "")
    return figure


def draw_chart(name: str, output: str) -> Figure:
    """The picture of an example, from what it prints."""
    size, draw = CHARTS[name]
    figure = Figure(figsize=size, layout="constrained")
    draw(figure.subplots(), output)
    return figure


def save(figure: Figure, path: Path) -> None:
    figure.savefig(path, dpi=144, metadata={"Software": None})
    Image.open(path).convert("RGB").quantize(64).save(path, optimize=True)  # a third of the size


def replace_output(name: str, output: str) -> None:
    """Put what an example prints below its command in gallery.md."""
    page = DOCS / "gallery.md"
    block = re.compile(rf"(\$ [^\n]*examples/{name}\.py\n).*?(?=```)", re.S)
    page.write_text(block.sub(lambda match: match[1] + output, page.read_text()))


def main(names: list[str]) -> None:
    matplotlib.rcdefaults()
    matplotlib.rcParams.update({"font.size": 10, "axes.titlesize": 10})
    (DOCS / "gallery").mkdir(exist_ok=True)
    for name in names or [*CHARTS, "segmentation"]:
        if name == "segmentation":
            output, *parts = run_segmentation()
            figure = draw_segmentation(*parts)
        else:
            output = run_example(name)
            figure = draw_chart(name, output)
        save(figure, DOCS / "gallery" / f"{name}.png")
        replace_output(name, output)


if __name__ == "__main__":
    main(sys.argv[1:])
