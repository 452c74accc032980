"""ResNet-18 and ResNet-34: residual networks of basic blocks for images."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from evalign._errors import check_integer, expected, show
from evalign.papers.networks._checks import check_images
from evalign.papers.networks._convolution import Conv3x3

STEMS = ("imagenet", "small")


def resnet18(classes: int, channels: int = 3, *, stem: str = "imagenet") -> nn.Module:
    """ResNet-18: four stages of two residual blocks, with 64 to 512 channels.

    `stem="imagenet"` starts with a 7 x 7 convolution of stride 2 and max pooling; `stem="small"`, for
    images of about 32 x 32 pixels, with a 3 x 3 convolution of stride 1 and no pooling. Layers are named
    as in torchvision, so that its published weights can be loaded into the former.

    >>> network = resnet18(1, stem="small")
    >>> network.eval()(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 1])

    References:
        He et al. (2016), Deep residual learning for image recognition, table 1 and section 4.2. Used in
        the surrogate F-beta paper for Fashion-MNIST.
    """
    return _ResNet((2, 2, 2, 2), classes, channels, stem)


def resnet34(classes: int, channels: int = 3, *, stem: str = "imagenet") -> nn.Module:
    """ResNet-34: four stages of 3, 4, 6 and 3 residual blocks, otherwise as `resnet18`.

    >>> sum(p.numel() for p in resnet34(1000).parameters())
    21797672

    References:
        He et al. (2016), Deep residual learning for image recognition, table 1. Used in the surrogate
        F-beta paper for CIFAR-10.
    """
    return _ResNet((3, 4, 6, 3), classes, channels, stem)


class _ResNet(nn.Module):
    def __init__(self, blocks: tuple[int, ...], classes: int, channels: int, stem: str) -> None:
        super().__init__()
        check_integer(classes=classes, channels=channels)
        if stem not in STEMS:
            raise expected("stem", f"to be one of {STEMS}", show(stem))
        self.channels = channels
        large = stem == "imagenet"
        self.conv1 = nn.Conv2d(channels, 64, 7, 2, 3, bias=False) if large else Conv3x3(channels, 64)
        self.bn1 = nn.BatchNorm2d(64)
        self.maxpool = nn.MaxPool2d(3, 2, 1) if large else nn.Identity()
        self.layer1 = _stage(64, 64, blocks[0], stride=1)
        self.layer2 = _stage(64, 128, blocks[1], stride=2)
        self.layer3 = _stage(128, 256, blocks[2], stride=2)
        self.layer4 = _stage(256, 512, blocks[3], stride=2)
        self.fc = nn.Linear(512, classes)
        for part in self.modules():
            if isinstance(part, nn.Conv2d):
                nn.init.kaiming_normal_(part.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, images: Tensor) -> Tensor:
        """Return the logits (N, classes) of images (N, channels, height, width)."""
        check_images(images, self.channels, side=1)
        x = self.maxpool(self.bn1(self.conv1(images)).relu())
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        logits: Tensor = self.fc(x.mean((-2, -1)))
        return logits


class _Block(nn.Module):
    """Two 3 x 3 convolutions and a shortcut, which is a projection where the shape changes."""

    def __init__(self, width: int, filters: int, stride: int) -> None:
        super().__init__()
        self.conv1 = Conv3x3(width, filters, stride)
        self.bn1 = nn.BatchNorm2d(filters)
        self.conv2 = Conv3x3(filters, filters)
        self.bn2 = nn.BatchNorm2d(filters)
        self.downsample = None
        if stride > 1 or width != filters:
            projection = nn.Conv2d(width, filters, 1, stride, bias=False)
            self.downsample = nn.Sequential(projection, nn.BatchNorm2d(filters))

    def forward(self, x: Tensor) -> Tensor:
        shortcut = x if self.downsample is None else self.downsample(x)
        return torch.relu(self.bn2(self.conv2(self.bn1(self.conv1(x)).relu())) + shortcut)


def _stage(width: int, filters: int, blocks: int, stride: int) -> nn.Sequential:
    rest = (_Block(filters, filters, 1) for _ in range(blocks - 1))
    return nn.Sequential(_Block(width, filters, stride), *rest)
