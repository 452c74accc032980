"""The figures of Lee et al. (2021) and one of our own as data, and how they are drawn."""

from evalign.papers.figures import _lee, _when
from evalign.papers.figures._draw import draw
from evalign.papers.figures._figure import Claim, Line, Panel, PaperFigure

#: All figures by name.
FIGURES: dict[str, PaperFigure] = {figure.name: figure for figure in (*_lee.FIGURES, _when.FIGURE)}

__all__ = ["FIGURES", "Claim", "Line", "Panel", "PaperFigure", "draw"]
