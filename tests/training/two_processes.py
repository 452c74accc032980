"""Run by test_processes.py in each of two processes: train on a part of every batch, save the results.

    python two_processes.py RANK WORLD_SIZE RENDEZVOUS_FILE RESULT_FILE

With a world of one it trains on the joined batches, alone.
"""

import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

from evalign.losses import MetricLoss
from evalign.training import ExactStep

TASKS = {"multiclass": 4, "pair": 2, "binary": 1, "multilabel": 3}
#: Where each batch is cut between the two processes: equal, unequal, and one of them almost empty.
CUTS = [50, 37, 99]


def named(task):
    """Multilabel targets have the shape of the logits, so the task must be named."""
    return {"task": "multilabel"} if task == "multilabel" else {}


def data(task: str, seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(100, 6, generator=generator, dtype=torch.float64)
    y = torch.randint(0, max(2, TASKS[task]), (100,), generator=generator)
    y = F.one_hot(y, 3) if task == "multilabel" else y
    return x, y, torch.rand(100, generator=generator, dtype=torch.float64)


def network(task: str) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, TASKS[task])).double()


def train(task: str, rank: int, world: int, exact: bool) -> dict[str, torch.Tensor]:
    """Three steps of gradient descent; the losses, the last gradients and the memory."""
    model = network(task)
    wrapped = DistributedDataParallel(model) if world > 1 else model
    loss = MetricLoss("f1", memory=0.0 if exact else 0.8, anchor=0.3, **named(task))
    values = []
    for seed, cut in enumerate(CUTS):
        mine = slice(None) if world == 1 else (slice(0, cut), slice(cut, None))[rank]
        x, y, w = (side[mine] for side in data(task, seed))
        model.zero_grad()
        if exact:
            value = ExactStep(wrapped, loss, micro_batch=9).backward(x, y, w)
        else:
            value = loss(wrapped(x), y, w)
            value.backward()
        values.append(value.detach())
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= 0.5 * parameter.grad
    result = {"values": torch.stack(values)}
    result["gradients"] = torch.cat([p.grad.flatten() for p in model.parameters()])
    result["weights"] = torch.cat([p.detach().flatten() for p in model.parameters()])
    if not exact:
        result["memory"] = loss.running_confusion
    return result


def shard(rank: int, world: int) -> dict[str, torch.Tensor]:
    """Two steps with FSDP2, which divides the weights among the processes; one process trains plainly."""
    model, loss = network("multiclass"), MetricLoss("f1", memory=0.5)
    if world > 1:
        mesh = init_device_mesh("cpu", (world,))
        for layer in (model[0], model[2]):
            fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for seed, cut in enumerate(CUTS[:2]):
        mine = slice(None) if world == 1 else (slice(0, cut), slice(cut, None))[rank]
        x, y, w = (side[mine] for side in data("multiclass", seed))
        optimizer.zero_grad()
        loss(model(x), y, w).backward()
        optimizer.step()
    whole = [p.full_tensor() if isinstance(p, DTensor) else p for p in model.parameters()]
    return {"weights": torch.cat([p.detach().flatten() for p in whole]), "memory": loss.running_confusion}


def main() -> None:
    rank, world, rendezvous, target = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
    torch.set_num_threads(1)
    if world > 1:
        dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=world)
    results = {
        f"{task}-{exact}": train(task, rank, world, exact) for task in TASKS for exact in (False, True)
    }
    results["sharded"] = shard(rank, world)
    if world > 1:
        x, y, _ = data("multiclass", 0)
        part = (slice(0, 37), slice(37, None))[rank]
        logits = network("multiclass")(x[part])
        alone = MetricLoss("f1", sync=False)(logits, y[part])
        results["sync"] = {
            "off": alone.detach(),
            "local": (1 - MetricLoss("f1").eval()(logits, y[part])).detach(),
        }
        if rank == 0:  # a validation loss on one process only must not wait for the other
            with torch.no_grad():
                MetricLoss("f1")(logits, y[part])
        dist.destroy_process_group()
    torch.save(results, target)


if __name__ == "__main__":
    main()
