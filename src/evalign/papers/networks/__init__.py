"""The networks of the papers, and stacks of small ones that are trained at once."""

from evalign.papers.networks._btg import btg_net
from evalign.papers.networks._darknet import darknet19, darknet_tiny
from evalign.papers.networks._graph import graph_network
from evalign.papers.networks._losses import trial_losses
from evalign.papers.networks._resnet import resnet18, resnet34
from evalign.papers.networks._stack import NetworkStack, stack_networks

__all__ = [
    "NetworkStack",
    "btg_net",
    "darknet19",
    "darknet_tiny",
    "graph_network",
    "resnet18",
    "resnet34",
    "stack_networks",
    "trial_losses",
]
