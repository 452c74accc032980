"""Darknet and ResNet: sizes as in the literature, shapes, initial weights and invalid input."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from evalign.papers.networks import darknet19, darknet_tiny, resnet18, resnet34
from evalign.papers.networks._convolution import Conv3x3

ALL = [darknet19, darknet_tiny, resnet18, resnet34]


def on_meta_device(make, *args, **kwargs):
    """The network on the meta device: enough to count its weights and to compute shapes."""
    with torch.device("meta"):
        return make(*args, **kwargs)


def count(network):
    return sum(p.numel() for p in network.parameters())


def of_kind(network, kind):
    return [part for part in network.modules() if isinstance(part, kind)]


# (input channels, filters, side) of every convolution with batch normalisation.
YOLO9000_TABLE_6 = [
    (3, 32, 3), (32, 64, 3),
    (64, 128, 3), (128, 64, 1), (64, 128, 3),
    (128, 256, 3), (256, 128, 1), (128, 256, 3),
    (256, 512, 3), (512, 256, 1), (256, 512, 3), (512, 256, 1), (256, 512, 3),
    (512, 1024, 3), (1024, 512, 1), (512, 1024, 3), (1024, 512, 1), (512, 1024, 3),
]  # fmt: skip
TINY_DARKNET = [
    (3, 16, 3), (16, 32, 3),
    (32, 16, 1), (16, 128, 3), (128, 16, 1), (16, 128, 3),
    (128, 32, 1), (32, 256, 3), (256, 32, 1), (32, 256, 3),
    (256, 64, 1), (64, 512, 3), (512, 64, 1), (64, 512, 3), (512, 128, 1),
]  # fmt: skip


@pytest.mark.parametrize(("make", "table", "last"), [
    (darknet19, YOLO9000_TABLE_6, 1024),
    (darknet_tiny, TINY_DARKNET, 128),
])  # fmt: skip
@pytest.mark.parametrize("classes", [1, 1000])
def test_size_of_darknets(make, table, last, classes):
    by_hand = sum(i * o * side**2 + 2 * o for i, o, side in table) + last * classes + classes
    assert count(on_meta_device(make, classes)) == by_hand


def test_size_of_darknets_in_the_literature():
    """20.8 million (MathWorks' reference of `darknet19`), and a file of 4.0 MB (Redmon's page)."""
    assert round(count(on_meta_device(darknet19, 1000)) / 1e6, 1) == 20.8
    stored = on_meta_device(darknet_tiny, 1000).state_dict()
    assert round(4 * sum(v.numel() for v in stored.values() if v.is_floating_point()) / 2**20, 1) == 4.0


@pytest.mark.parametrize(("make", "size", "tensors"), [
    (resnet18, 11_689_512, 20 + 20 * 5 + 2),
    (resnet34, 21_797_672, 36 + 36 * 5 + 2),
])  # fmt: skip
def test_size_of_resnets_is_that_of_torchvision(make, size, tensors):
    """`num_params` of torchvision's weights, and its names of layers, so that these weights can be loaded."""
    network = on_meta_device(make, 1000)
    assert count(network) == size
    names = set(network.state_dict())
    assert len(names) == tensors
    assert {"conv1.weight", "bn1.running_var", "layer2.0.downsample.0.weight", "layer4.1.bn2.bias"} < names
    assert {"layer3.0.downsample.1.weight", "layer4.0.conv2.weight", "fc.weight", "fc.bias"} < names
    assert "layer1.0.downsample.0.weight" not in names


@pytest.mark.parametrize("make", [resnet18, resnet34])
def test_size_with_the_small_stem(make):
    """A 3 x 3 convolution instead of a 7 x 7 one."""
    large, small = (on_meta_device(make, 10, stem=stem) for stem in ("imagenet", "small"))
    assert count(large) - count(small) == (7 * 7 - 3 * 3) * 3 * 64


def test_number_of_layers_of_darknets():
    for make, convolutions, poolings in ((darknet19, 19, 5), (darknet_tiny, 16, 4)):
        network = on_meta_device(make, 10)
        assert len(of_kind(network, nn.Conv2d)) == convolutions
        assert len(of_kind(network, nn.MaxPool2d)) == poolings
        assert len(of_kind(network, nn.BatchNorm2d)) == convolutions - 1
        assert {layer.negative_slope for layer in of_kind(network, nn.LeakyReLU)} == {0.1}


@pytest.mark.parametrize(("make", "options", "side", "last"), [
    (darknet19, {}, 224, 7),  # YOLO9000, table 6
    (darknet19, {}, 32, 1),
    (darknet_tiny, {}, 224, 14),
    (resnet18, {}, 224, 7),  # He et al., table 1
    (resnet34, {}, 224, 7),
    (resnet18, {"stem": "small"}, 32, 4),
    (resnet34, {"stem": "small"}, 28, 4),
])  # fmt: skip
def test_side_of_the_last_map(make, options, side, last):
    network, shapes = on_meta_device(make, 5, **options).eval(), []
    of_kind(network, nn.BatchNorm2d)[-1].register_forward_hook(
        lambda _, __, out: shapes.append(out.shape[-2:])
    )
    assert network(torch.empty(2, 3, side, side, device="meta")).shape == (2, 5)
    assert shapes == [(last, last)]


@pytest.mark.parametrize(("make", "slope"), [(darknet_tiny, 0.1), (resnet18, 0.0)])
def test_initial_weights_have_the_variance_of_he(make, slope):
    """Variance 2 / ((1 + slope^2) fan_out), He et al. (2015), eq. 14 and 15."""
    torch.manual_seed(0)
    for layer in of_kind(make(3), nn.Conv2d)[:-1]:
        fan_out = layer.out_channels * layer.kernel_size[0] ** 2
        if layer.weight.numel() > 5000:
            variance = 2 / (1 + slope**2) / fan_out
            assert layer.weight.var().item() == pytest.approx(variance, rel=0.1)


@pytest.mark.parametrize("make", [darknet_tiny, resnet18])
def test_seeded_by_the_global_generator(make):
    networks = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        networks.append(make(2, 1).state_dict().values())
    assert all(map(torch.equal, networks[0], networks[1]))
    assert not all(map(torch.equal, networks[0], networks[2]))


def test_a_block_with_zero_weights_is_its_shortcut():
    torch.manual_seed(0)
    block = resnet18(2, stem="small").layer1[0].eval()
    nn.init.zeros_(block.conv2.weight)
    x = torch.randn(2, 64, 3, 3)
    torch.testing.assert_close(block(x), x.relu())


@pytest.mark.parametrize(("make", "options", "side"), [
    (darknet_tiny, {}, 16), (resnet18, {"stem": "small"}, 4),
])  # fmt: skip
def test_learns_in_double_precision(make, options, side):
    """Bright and dark images: every weight gets a gradient, and a few steps are enough."""
    torch.manual_seed(0)
    network = make(2, 1, **options).double()
    targets = torch.tensor([0, 1] * 4)
    images = torch.randn(8, 1, side, side, dtype=torch.float64) + targets.view(-1, 1, 1, 1)
    optimizer, losses = torch.optim.SGD(network.parameters(), lr=0.02), []
    for _ in range(5):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(network(images), targets)
        loss.backward()
        assert all(p.grad is not None and p.grad.isfinite().all() for p in network.parameters())
        optimizer.step()
        losses.append(loss.item())
    assert loss.dtype == torch.float64
    assert losses[-1] < 0.5 * losses[0]


@pytest.mark.parametrize("make", ALL)
@pytest.mark.parametrize(("shape", "dtype", "words"), [
    ((3, 32, 32), None, r"of shape \(N, 3, height, width\), but got shape \(3, 32, 32\)"),
    ((1, 32, 32, 3), None, r"of shape \(N, 3, height, width\), but got shape \(1, 32, 32, 3\)"),
    ((1, 3, 32, 32), torch.uint8, "of a floating type, but got torch.uint8"),
])  # fmt: skip
def test_invalid_images(make, shape, dtype, words):
    with pytest.raises(ValueError, match=f"Expected `images` {words}"):
        on_meta_device(make, 2)(torch.zeros(shape, dtype=dtype, device="meta"))


@pytest.mark.parametrize(("make", "side"), [(darknet19, 32), (darknet_tiny, 16)])
def test_images_too_small_to_pool(make, side):
    network = on_meta_device(make, 2).eval()
    assert network(torch.empty(1, 3, side, side, device="meta")).shape == (1, 2)
    with pytest.raises(
        ValueError, match=f"`images` of at least {side} x {side} pixels, but got {side - 1} x 64"
    ):
        network(torch.empty(1, 3, side - 1, 64, device="meta"))


@pytest.mark.parametrize("make", ALL)
@pytest.mark.parametrize("argument", ["classes", "channels"])
@pytest.mark.parametrize("value", [0, 2.5, "3", None, True], ids=repr)
def test_invalid_sizes(make, argument, value):
    with pytest.raises(ValueError, match=f"Expected `{argument}` to be an integer >= 1, but got"):
        make(**{"classes": 2, argument: value})


@pytest.mark.parametrize("stem", ["large", None, 3])
def test_invalid_stem(stem):
    with pytest.raises(ValueError, match="Expected `stem` to be one of .*'small'.*, but got"):
        resnet18(2, stem=stem)


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize(("height", "width"), [(1, 1), (1, 2), (2, 2), (2, 3), (4, 4)])
@pytest.mark.parametrize("stride", [1, 2])
def test_convolutions_of_tiny_maps_equal_the_plain_ones(height, width, stride, layout):
    layer = Conv3x3(5, 7, stride).double().to(memory_format=layout)
    maps = torch.randn(3, 5, height, width, dtype=torch.double, requires_grad=True)
    wanted = F.conv2d(maps, layer.weight, stride=stride, padding=1)
    upstream = torch.randn_like(wanted)
    torch.testing.assert_close(layer(maps), wanted)
    torch.testing.assert_close(
        torch.autograd.grad(layer(maps), (maps, layer.weight), upstream),
        torch.autograd.grad(wanted, (maps, layer.weight), upstream),
    )


def test_pooling_before_the_activation_equals_pooling_after_it():
    torch.manual_seed(0)
    network = darknet_tiny(3).double()
    layers = list(network)
    places = [place for place, layer in enumerate(layers) if isinstance(layer, nn.MaxPool2d)]
    assert len(places) == 4
    for place in places:
        layers[place : place + 2] = [nn.LeakyReLU(0.1), layers[place]]
    plain, images = nn.Sequential(*layers), torch.randn(8, 3, 32, 32, dtype=torch.double)
    weights = list(network.parameters())
    wanted, value = plain(images), network(images)
    torch.testing.assert_close(value, wanted)
    torch.testing.assert_close(
        torch.autograd.grad(value.square().sum(), weights),
        torch.autograd.grad(wanted.square().sum(), weights),
    )
