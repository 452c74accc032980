"""Segment small objects: train a network on IoU (the Jaccard index) instead of cross-entropy per pixel.

The images are noise with up to three small bright squares, about 1 % of all pixels. The same small
convolutional network is trained from the same initial weights: with cross-entropy, and with
cross-entropy for a third of the epochs, then `MetricLoss("jaccard")`. The IoU of all new images is
counted batch by batch by `MetricAccumulator`, also for cross-entropy with the threshold that is best on
validation images.

python examples/segmentation.py
"""

import copy
import sys

import torch
from torch import Tensor, nn

import evalign as ev


def draw_images(n: int, seed: int, size: int = 32) -> tuple[Tensor, Tensor]:
    """Images (n, 1, size, size) and the class of each pixel: 1 in up to three squares of 2 to 4 pixels."""
    generator = torch.Generator().manual_seed(seed)
    masks = torch.zeros(n, size, size, dtype=torch.long)
    for mask in masks:
        for _ in range(int(torch.randint(0, 4, (), generator=generator))):
            top, left = torch.randint(0, size - 4, (2,), generator=generator).tolist()
            side = int(torch.randint(2, 5, (), generator=generator))
            mask[top : top + side, left : left + side] = 1
    return (1.5 * masks + torch.randn(masks.shape, generator=generator))[:, None], masks


def train(model: nn.Module, phases: list[tuple[nn.Module, int]], x: Tensor, y: Tensor) -> nn.Module:
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    generator = torch.Generator().manual_seed(0)
    for loss, epochs in phases:
        for _ in range(epochs):
            for rows in torch.randperm(len(x), generator=generator).split(32):
                optimizer.zero_grad()
                loss(model(x[rows]), y[rows]).backward()
                optimizer.step()
    return model


@torch.no_grad()
def iou(model: nn.Module, x: Tensor, y: Tensor, threshold: float = 0.5) -> float:
    accumulator = ev.metrics.MetricAccumulator("jaccard", num_classes=2)
    for inputs, targets in zip(x.split(50), y.split(50), strict=True):
        accumulator.update((model(inputs).softmax(1)[:, 1] >= threshold).long(), targets)
    return accumulator.compute().item()


def main(small: bool) -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    n, epochs = (64, 9) if small else (400, 30)
    (x, y), (x_valid, y_valid), (x_test, y_test) = (draw_images(n, seed) for seed in (1, 2, 3))
    convolutions = (nn.Conv2d(1, 8, 5, padding=2), nn.ReLU(), nn.Conv2d(8, 8, 5, padding=2), nn.ReLU())
    first = nn.Sequential(*convolutions, nn.Conv2d(8, 2, 1))
    second = copy.deepcopy(first)
    entropy, jaccard = nn.CrossEntropyLoss(), ev.MetricLoss("jaccard")
    plain = train(first, [(entropy, epochs)], x, y)
    aligned = train(second, [(entropy, epochs // 3), (jaccard, epochs - epochs // 3)], x, y)
    with torch.no_grad():
        p = plain(x_valid).softmax(1)[:, 1].flatten()
    threshold = ev.decisions.fit_rule(p, y_valid.flatten(), "jaccard").threshold
    print(f"IoU of the objects, {y_test.float().mean():.1%} of the pixels of {n} new images")
    print(f"cross-entropy          {iou(plain, x_test, y_test):.3f}")
    print(f"+ tuned threshold      {iou(plain, x_test, y_test, threshold):.3f}")
    print(f"MetricLoss('jaccard')  {iou(aligned, x_test, y_test):.3f}")


if __name__ == "__main__":
    main(small="--small" in sys.argv[1:])
