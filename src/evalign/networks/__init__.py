"""Small networks, and many of them trained at once."""

from evalign.networks._darknet import darknet19, darknet_tiny
from evalign.networks._graph import graph_network
from evalign.networks._mlp import btg_net, mlp
from evalign.networks._resnet import resnet18, resnet34
from evalign.networks._stacked import Stacked, stacked
from evalign.networks._trials import BestTrials, trial_losses

__all__ = [
    "BestTrials",
    "Stacked",
    "btg_net",
    "darknet19",
    "darknet_tiny",
    "graph_network",
    "mlp",
    "resnet18",
    "resnet34",
    "stacked",
    "trial_losses",
]
