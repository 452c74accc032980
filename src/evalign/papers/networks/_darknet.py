"""Darknet-19 and Tiny Darknet: stacks of 3 x 3 and 1 x 1 convolutions for images."""

from __future__ import annotations

from torch import Tensor, nn

from evalign._errors import check_integer
from evalign.papers.networks._checks import check_images
from evalign.papers.networks._convolution import Conv3x3

#: The slope of the leaky ReLU below 0.
LEAK = 0.1

_Stages = tuple[tuple[tuple[int, int], ...], ...]

#: (filters, kernel side) of the convolutions of each stage; max pooling separates the stages.
DARKNET_19: _Stages = (
    ((32, 3),),
    ((64, 3),),
    ((128, 3), (64, 1), (128, 3)),
    ((256, 3), (128, 1), (256, 3)),
    ((512, 3), (256, 1), (512, 3), (256, 1), (512, 3)),
    ((1024, 3), (512, 1), (1024, 3), (512, 1), (1024, 3)),
)
TINY: _Stages = (
    ((16, 3),),
    ((32, 3),),
    ((16, 1), (128, 3), (16, 1), (128, 3)),
    ((32, 1), (256, 3), (32, 1), (256, 3)),
    ((64, 1), (512, 3), (64, 1), (512, 3), (128, 1)),
)


def darknet19(classes: int, channels: int = 3) -> nn.Module:
    """Darknet-19: 19 convolutions, 5 max-pooling layers and a global average, for images from 32 x 32 pixels.

    Every convolution except the last is followed by batch normalisation and leaky ReLU. With `classes=1`
    the output is one logit per image, for binary losses.

    >>> import torch
    >>> network = darknet19(10)
    >>> network.eval()(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 10])

    References:
        Redmon and Farhadi (2017), YOLO9000: better, faster, stronger, table 6. Used in Li et al. (2025),
        EAST, appendix E.3.1.
    """
    return _Darknet(DARKNET_19, classes, channels)


def darknet_tiny(classes: int, channels: int = 3) -> nn.Module:
    """Tiny Darknet: 16 convolutions with a twentieth of Darknet-19's weights, for images from 16 x 16 pixels.

    Tsoi et al. use a network of this name for their CIFAR-10 experiments, but do not list its layers; the
    layers here are those that the author of Darknet published.

    >>> import torch
    >>> network = darknet_tiny(1)
    >>> network.eval()(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 1])

    References:
        Redmon, Tiny Darknet, pjreddie.com/darknet/tiny-darknet; Tsoi et al. (2022), Bridging the gap,
        section 5.2 and github.com/nathantsoi/btg.
    """
    return _Darknet(TINY, classes, channels)


class _Darknet(nn.Sequential):
    def __init__(self, stages: _Stages, classes: int, channels: int) -> None:
        check_integer(classes=classes, channels=channels)
        layers: list[nn.Module] = []
        width = channels
        for number, stage in enumerate(stages, 1):
            for filters, side in stage:
                layers += _convolution(width, filters, side)
                width = filters
            if number < len(stages):
                # The activation of a maximum is the maximum of activations, and is computed for a quarter.
                layers.insert(-1, nn.MaxPool2d(2))
        last = nn.Conv2d(width, classes, 1)
        nn.init.kaiming_normal_(last.weight, nonlinearity="linear")
        nn.init.zeros_(last.bias)  # type: ignore[arg-type]
        super().__init__(*layers, last, nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.channels, self.side = channels, 2 ** (len(stages) - 1)

    def forward(self, images: Tensor) -> Tensor:
        """Return the logits (N, classes) of images (N, channels, height, width)."""
        check_images(images, self.channels, self.side)
        for layer in self:
            images = layer(images)
        return images


def _convolution(width: int, filters: int, side: int) -> list[nn.Module]:
    # Batch normalisation has its own bias.
    convolution = Conv3x3(width, filters) if side == 3 else nn.Conv2d(width, filters, side, bias=False)
    nn.init.kaiming_normal_(convolution.weight, LEAK, mode="fan_out", nonlinearity="leaky_relu")
    return [convolution, nn.BatchNorm2d(filters), nn.LeakyReLU(LEAK, inplace=True)]
