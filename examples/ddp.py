"""Train on F1 in two processes as if they were one: they share the confusion matrix, not the data.

torchrun --nproc-per-node 2 examples/ddp.py
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

import evalign as ev


def train(rank: int) -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    data = ev.datasets.load("mammography")
    x = torch.from_numpy((data.X - data.X.mean(0)) / data.X.std(0))
    y = torch.from_numpy(data.y)
    sampler = ev.training.DistributedStratifiedBatchSampler(data.y, batch_size=512)
    loader = DataLoader(TensorDataset(x, y), batch_sampler=sampler)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(6, 64), nn.ReLU(), nn.Linear(64, 2)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    loss = ev.MetricLoss("f1")  # finds the process group by itself
    for epoch in range(15):
        sampler.set_epoch(epoch)
        for inputs, targets in loader:
            optimizer.zero_grad()
            value = loss(model(inputs), targets)
            value.backward()
            optimizer.step()
        loss.temperature = max(0.05, 0.9 * loss.temperature)
        if rank == 0 and epoch % 5 == 4:
            with torch.no_grad():
                score = ev.metrics.f1().score(y, model.module(x).argmax(1))
            print(f"epoch {epoch + 1}: loss over both processes {value.item():.3f}, training F1 {score:.3f}")


def main() -> None:
    dist.init_process_group("gloo")  # "nccl" on GPUs
    train(dist.get_rank())
    # The model is gone by now: one that outlives its process group can deadlock when it is freed (gloo).
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
