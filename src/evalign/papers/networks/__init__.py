"""The networks of the papers, and many of them trained at once."""

from evalign.papers.networks._btg import btg_net
from evalign.papers.networks._darknet import darknet19, darknet_tiny
from evalign.papers.networks._graph import graph_network
from evalign.papers.networks._resnet import resnet18, resnet34
from evalign.papers.networks._stacked import Stacked, stacked
from evalign.papers.networks._trials import BestTrials, trial_losses

__all__ = [
    "BestTrials",
    "Stacked",
    "btg_net",
    "darknet19",
    "darknet_tiny",
    "graph_network",
    "resnet18",
    "resnet34",
    "stacked",
    "trial_losses",
]
