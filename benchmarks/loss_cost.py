"""Measure the cost of `MetricLoss` relative to cross-entropy: forward plus backward, one thread, medians.

All losses of a row are timed in turn, call by call, in CPU time, so that other load on the machine affects
them equally; only the ratios are meaningful. Before timing, a block of 32 MB is freed, as in any process that
has read its data: from then on the C library keeps freed memory instead of returning it to the system after
every call. EVALIGN_NATIVE=0 measures the loss without its compiled kernel. MONAI's Dice loss is included if
`monai` is installed (`pip install --no-deps monai`).

    python benchmarks/loss_cost.py [--seconds 4]
"""

import argparse
import datetime
import platform
import statistics
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import evalign as ev

SHAPES = [(1024, 2), (65536, 2), (4096, 10), (1024, 257), (4096, 1000)]
Loss = Callable[[Tensor, Tensor], Tensor]
IMAGES = (4, 21, 256, 256)


def medians(calls: dict[str, Callable[[], object]], seconds: float) -> dict[str, float]:
    """Return the median time of each call in microseconds; the calls take turns."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
        call()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(next(iter(times.values()))) < 15:
        for name, call in calls.items():
            start = time.process_time()
            call()
            times[name].append(1e6 * (time.process_time() - start))
    return {name: statistics.median(values) for name, values in times.items()}


def soft_dice(logits: Tensor, targets: Tensor) -> Tensor:
    """The usual soft Dice loss over classes, with autograd."""
    p, y = logits.softmax(-1), F.one_hot(targets, logits.shape[1]).to(logits.dtype)
    return 1 - (2 * (p * y).sum(0) / (p.sum(0) + y.sum(0))).mean()


def dense_dice(logits: Tensor, targets: Tensor) -> Tensor:
    """Dice as in segmentation_models_pytorch (mode "multiclass"), whose arithmetic this is."""
    d = logits.shape[1]
    p = logits.log_softmax(1).exp().flatten(2)
    y = F.one_hot(targets.flatten(1), d).permute(0, 2, 1).to(p.dtype)
    both, sizes = (p * y).sum((0, 2)), (p + y).sum((0, 2))
    return ((1 - 2 * both / sizes.clamp_min(1e-7)) * (y.sum((0, 2)) > 0)).mean()


def plain_f1(logits: Tensor, targets: Tensor) -> Tensor:
    """The same loss from the plain formulas, with autograd."""
    d = logits.shape[1]
    matrix = ev.softsets.soft_confusion(ev.softsets.soft_assign(logits.softmax(-1)), targets, d)
    return 1 - ev.metrics.f1()(matrix)


def forward_backward(loss: Loss, logits: Tensor, targets: Tensor) -> Callable[[], None]:
    def call() -> None:
        logits.grad = None
        loss(logits, targets).backward()

    return call


def shape_table(seconds: float) -> float:
    losses = {
        "cross-entropy": F.cross_entropy,
        "MetricLoss('f1')": ev.MetricLoss("f1"),
        "soft Dice": soft_dice,
        "plain autograd": plain_f1,
    }
    print("| rows | classes | cross-entropy, us | MetricLoss('f1') | soft Dice | plain autograd |")
    print("|---|---|---|---|---|---|")
    worst = 0.0
    for rows, d in SHAPES:
        generator = torch.Generator().manual_seed(0)
        logits = torch.randn(rows, d, generator=generator).requires_grad_()
        targets = torch.randint(0, d, (rows,), generator=generator)
        times = medians(
            {name: forward_backward(loss, logits, targets) for name, loss in losses.items()}, seconds
        )
        base = times.pop("cross-entropy")
        ratios = [value / base for value in times.values()]
        worst = max(worst, ratios[0])
        print(
            f"| {rows:,} | {d:,} | {base:,.0f} | " + " | ".join(f"{r:.2f}x" for r in ratios) + " |",
            flush=True,
        )
    return worst


def segmentation(seconds: float) -> float:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(IMAGES, generator=generator).requires_grad_()
    targets = torch.randint(0, IMAGES[1], (IMAGES[0], *IMAGES[2:]), generator=generator)
    losses: dict[str, Loss] = {
        "cross-entropy": F.cross_entropy, "MetricLoss('f1')": ev.MetricLoss("f1"), "Dice of smp": dense_dice,
    }  # fmt: skip
    try:
        from monai.losses import DiceLoss

        dice = DiceLoss(softmax=True, to_onehot_y=True)
        losses["Dice of MONAI"] = lambda z, y: dice(z, y.unsqueeze(1))
    except ImportError:
        print("MONAI is not installed.")
    calls = {name: forward_backward(loss, logits, targets) for name, loss in losses.items()}
    times = medians(calls, seconds)
    base = times.pop("cross-entropy")
    ratios = {name: time / base for name, time in times.items()}
    print(f"Segmentation {IMAGES}: cross-entropy {base:,.0f} us", end="")
    print("".join(f", {name} {ratio:.2f}x" for name, ratio in ratios.items()) + ".", flush=True)
    peak_memory(logits, targets, losses)
    return ratios["MetricLoss('f1')"]


def small_batch(seconds: float) -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(25, generator=generator).requires_grad_()
    targets = torch.randint(0, 2, (25,), generator=generator)
    calls = {"ours": forward_backward(ev.MetricLoss("f1"), logits, targets)}
    try:
        calls["theirs"] = forward_backward(ev.losses.AdversarialLoss("f1"), logits, targets)
    except ImportError:
        print("Adversarial loss: ap_perf is not installed.")
        return
    times = medians(calls, seconds)
    ratio = times["theirs"] / times["ours"]
    print(f"Adversarial F1 (ap_perf), batch of 25: {ratio:.0f}x the time of MetricLoss('f1').")


def training_step(seconds: float) -> None:
    """Time a whole step (forward, backward, Adam) of a 512-256-128 network with batches of 1024 rows."""
    for d in (2, 10):
        torch.manual_seed(0)
        x, targets = torch.randn(1024, 64), torch.randint(0, d, (1024,))
        model = nn.Sequential(
            nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(),
            nn.Linear(128, d),
        )  # fmt: skip
        optimizer = torch.optim.Adam(model.parameters())

        def step(loss: Loss) -> Callable[[], None]:
            def call() -> None:
                optimizer.zero_grad()  # noqa: B023
                loss(model(x), targets).backward()  # noqa: B023
                optimizer.step()  # noqa: B023

            return call

        times = medians({"ce": step(F.cross_entropy), "ours": step(ev.MetricLoss("f1"))}, seconds)
        print(f"Training step of a 512-256-128-{d} network, batch 1024: {times['ours'] / times['ce']:.2f}x.")


def peak_memory(logits: Tensor, targets: Tensor, losses: dict[str, Loss]) -> None:
    """Print the peak memory of forward and backward, beyond logits and targets."""
    for name, loss in losses.items():
        logits.grad = None
        with torch.profiler.profile(profile_memory=True, acc_events=True) as profile:
            loss(logits, targets).backward()
        alive = peak = 0
        for event in sorted(profile.profiler.kineto_results.events(), key=lambda event: event.start_ns()):
            if event.name() == "[memory]":
                alive += event.nbytes()
                peak = max(peak, alive)
        size = logits.numel() * logits.element_size()
        shape = tuple(logits.shape)
        print(f"Peak extra memory at {shape}, gradient included: {name} {peak / size:.2f}x the logits.")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=4.0, help="time for each row of the table")
    seconds = parser.parse_args().seconds
    torch.set_num_threads(1)
    block = torch.ones(2**23)
    del block
    print(f"torch {torch.__version__}, {platform.machine()}, 1 thread, seed 0, {datetime.date.today()}\n")
    worst = shape_table(seconds)
    print()
    small_batch(seconds)
    training_step(seconds)
    logits, targets = torch.randn(4096, 1000).requires_grad_(), torch.randint(0, 1000, (4096,))
    peak_memory(logits, targets, {"cross-entropy": F.cross_entropy, "MetricLoss('f1')": ev.MetricLoss("f1")})
    worst = max(worst, segmentation(seconds))
    print(f"\nworst ratio: {worst:.2f}")


if __name__ == "__main__":
    main()
