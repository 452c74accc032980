"""Drawing figures as PNG; matplotlib is imported only when one is drawn."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from evalign.papers.figures._figure import Line, Panel, correlation

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: The colour of a series by its last word; the colours of Okabe and Ito suit colour-blind readers as well.
COLORS = {
    "F0.5": "#E69F00", "F1": "#0072B2", "F2": "#009E73", "F3": "#D55E00", "surrogate": "#0072B2",
    "MAE": "#000000", "BCE": "#CC79A7",
}  # fmt: skip
PALE, GRID = "0.86", "0.93"
#: The rows of a convergence figure: the first word of their series, and a heading.
FAMILIES: tuple[tuple[tuple[str, ...], str], ...] = (
    (("surrogate",), "Surrogate F-beta"),
    (("soft",), "Macro soft F-beta"),
    (("weighted",), "Weighted soft F-beta"),
    (("MAE", "BCE"), "Common losses"),
)
#: The series of a figure of gains: one colour per network, one style per loss.
GAIN_STYLES: dict[str, dict[str, Any]] = {
    "aligned": {"color": "black", "marker": "o"},
    "EAST": {"color": "black", "marker": "s", "linestyle": "--"},
    "aligned, linear": {"color": "#D55E00", "marker": "o"},
    "EAST, linear": {"color": "#D55E00", "marker": "s", "linestyle": "--"},
    "aligned, 32-16": {"color": "#0072B2", "marker": "o"},
    "EAST, 32-16": {"color": "#0072B2", "marker": "s", "linestyle": "--"},
    "surrogate, q = 0, linear": {"color": "#009E73", "marker": "^"},
    "surrogate, q = 0.7, linear": {"color": "#009E73", "marker": "v", "linestyle": ":"},
}
STYLE: dict[Any, Any] = {
    "font.size": 10,
    "lines.linewidth": 1.8,
    "axes.titlesize": 10.5,
    "axes.axisbelow": True,
}


def draw(kind: str, panels: Sequence[Panel]) -> bytes:
    """Draw a figure of a kind as PNG."""
    try:
        import matplotlib  # noqa: PLC0415
    except ImportError as error:
        raise ImportError("Figures need matplotlib: pip install 'evalign[papers]'.") from error
    from matplotlib.figure import Figure  # noqa: PLC0415
    from matplotlib.layout_engine import ConstrainedLayoutEngine  # noqa: PLC0415

    with matplotlib.rc_context({**matplotlib.rcParamsDefault, **STYLE}):
        figure = Figure(figsize=SIZES[kind], layout=ConstrainedLayoutEngine(wspace=0.06, hspace=0.05))
        KINDS[kind](figure, panels)
        stream = io.BytesIO()
        figure.savefig(stream, format="png", dpi=160)
    return _reduce_colours(stream)


def _reduce_colours(png: io.BytesIO) -> bytes:
    """Return the same picture with 256 colours, in a third of the bytes."""
    from PIL import Image  # matplotlib needs it too  # noqa: PLC0415

    small = io.BytesIO()
    Image.open(png).convert("RGB").quantize(256, dither=Image.Dither.NONE).save(small, "png", optimize=True)
    return small.getvalue()


def _draw_shapes(figure: Figure, panels: Sequence[Panel]) -> None:
    rows = figure.subplots(1, len(panels), sharey=True)
    for axes, panel in zip(rows, panels, strict=True):
        for line in panel.lines:
            axes.plot(line.x, line.y, label=line.series, **_style(line.series))
        _tidy(axes, panel.title, panel.x_label)
        axes.set(xlim=(0, 1), ylim=(0, 3), xticks=[0, 0.5, 1], yticks=range(4))
        axes.set_xticklabels(["0", "0.5", "1"])
    rows[0].set_ylabel(panels[0].y_label)
    handles = dict(zip(*reversed(rows[-1].get_legend_handles_labels()), strict=True))
    figure.legend(handles.values(), handles.keys(), loc="outside right center", frameon=False)


def _style(series: str) -> dict[str, Any]:
    """The style of a series; BCE is wide, since other lines coincide with it."""
    wide = {"linewidth": 5.5, "alpha": 0.5} if series == "BCE" else {}
    dotted = {"linestyle": ":"} if series == "MAE" else {}
    return {"color": COLORS[series.split()[-1]], **wide, **dotted}


def _draw_convergence(figure: Figure, panels: Sequence[Panel]) -> None:
    """Draw one row of panels per family of losses that were trained, with all others in grey behind it."""
    names = [line.series for panel in panels for line in panel.lines]
    families = [family for family in FAMILIES if any(name.startswith(family[0]) for name in names)]
    if not families:
        return
    width, height = SIZES["convergence"]
    figure.set_size_inches(width, height * len(families) / len(FAMILIES))
    grid = figure.subplots(len(families), len(panels), sharex=True, sharey="col", squeeze=False)
    for row, (begin, heading) in zip(grid, families, strict=True):
        for axes, panel in zip(row, panels, strict=True):
            lines = [line for line in panel.lines if line.repetition == 0]
            for line in sorted(lines, key=lambda line: line.series.startswith(begin)):
                if line.series.startswith(begin):
                    color = COLORS[line.series.split()[-1]]
                    axes.plot(line.x, line.y, color=color, label=line.series)
                else:
                    axes.plot(line.x, line.y, color=PALE, linewidth=0.9)
            _tidy(axes, panel.title if axes in grid[0] else "", panel.x_label if axes in grid[-1] else "")
            axes.set_xlim(1)
        row[-1].legend(
            title=heading, loc="center left", bbox_to_anchor=(1.02, 0.5), frameon=False, alignment="left"
        )


def _draw_scatter(figure: Figure, panels: Sequence[Panel]) -> None:
    """Draw the path of the first repetition, coloured by epoch, and its least-squares line."""
    grid = figure.subplots(2, 2).ravel()
    points = None
    for axes, panel in zip(grid, panels, strict=True):
        _tidy(axes, panel.title, panel.x_label)
        axes.set_ylabel(panel.y_label)
        line = next((line for line in panel.lines if line.repetition == 1), None)
        if line is None:
            continue
        axes.plot(line.x, line.y, color=PALE, linewidth=0.8, zorder=1)
        epochs = range(1, len(line.x) + 1)
        points = axes.scatter(line.x, line.y, c=epochs, cmap="viridis", s=22, linewidths=0, zorder=2)
        _draw_fit(axes, line)
    if points is not None:
        figure.colorbar(points, ax=list(grid), label="epoch", shrink=0.7, pad=0.02)


def _draw_gains(figure: Figure, panels: Sequence[Panel]) -> None:
    """Draw the mean of each series with its standard error over the repetitions."""
    grid = figure.subplots(2, (len(panels) + 1) // 2).ravel()
    for axes in grid[len(panels) :]:
        axes.set_visible(False)
    handles: dict[str, Any] = {}
    for axes, panel in zip(grid, panels, strict=False):
        axes.axhline(0, color="black", linewidth=0.9)
        for mean in (line for line in panel.lines if line.repetition == 0):
            trials = [line.y for line in panel.lines if line.series == mean.series and line.repetition]
            error = np.std(trials, axis=0, ddof=1) / np.sqrt(len(trials)) if len(trials) > 1 else None
            style = {"capsize": 2, "markersize": 4, **GAIN_STYLES[mean.series]}
            style |= {"linestyle": ""} if panel.names else {}
            bars = axes.errorbar(mean.x, mean.y, error, **style)
            handles.setdefault(mean.series, bars)  # of the first panel: with its line
        if panel.log:
            axes.set_xscale("log")
        if panel.names:
            names = [name.replace(" ", "\n") for name in panel.names]
            axes.set_xticks(range(1, len(names) + 1), names)
            axes.set_xlim(0.5, len(names) + 0.5)
        _tidy(axes, panel.title, panel.x_label)
        axes.set_ylabel(panel.y_label)
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=3, frameon=False)


def _draw_fit(axes: Axes, line: Line) -> None:
    coefficient = correlation(line.x, line.y)
    text = "constant" if np.isnan(coefficient) else f"r = {coefficient:.2f}"
    axes.text(0.96, 0.94, text, transform=axes.transAxes, ha="right", va="top", fontsize=11)
    if np.isnan(coefficient):
        return
    slope, start = np.polyfit(line.x, line.y, 1)
    ends = np.array([min(line.x), max(line.x)])
    axes.plot(ends, start + slope * ends, color="black", linewidth=1, linestyle=(0, (5, 3)), zorder=3)
    low, high = min(line.y), max(line.y)
    axes.set_ylim(low - 0.05 * (high - low), high + 0.1 * (high - low))


def _tidy(axes: Axes, title: str, x_label: str) -> None:
    axes.grid(color=GRID, linewidth=0.8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title(title)
    axes.set_xlabel(x_label)


KINDS: dict[str, Callable[[Figure, Sequence[Panel]], None]] = {
    "shapes": _draw_shapes, "convergence": _draw_convergence, "scatter": _draw_scatter,
    "gains": _draw_gains,
}  # fmt: skip
SIZES = {"shapes": (9.6, 3.3), "convergence": (10.5, 9.0), "scatter": (8.4, 6.6), "gains": (12.4, 7.0)}
