"""Tag rows with any number of labels: train on macro F1, then fit one threshold per label.

The same linear model is trained from the same initial weights with binary cross-entropy and with
`MetricLoss("f1", task="multilabel")`. Each decides at 0.5 and by `fit_rule`, whose thresholds come from
validation rows. Macro F1 on new rows is printed for all four.

python examples/multilabel.py
"""

import copy
import sys

import torch
from sklearn.datasets import make_multilabel_classification
from sklearn.metrics import f1_score
from torch import Tensor, nn

import evalign as ev


def train(model: nn.Module, loss: nn.Module, x: Tensor, y: Tensor, epochs: int) -> nn.Module:
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    generator = torch.Generator().manual_seed(0)
    for _ in range(epochs):
        for rows in torch.randperm(len(x), generator=generator).split(500):
            optimizer.zero_grad()
            loss(model(x[rows]), y[rows]).backward()
            optimizer.step()
    return model


def main(small: bool) -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    rows, epochs = (500, 20) if small else (3000, 150)
    X, Y = make_multilabel_classification(3 * rows, n_features=30, n_classes=8, n_labels=2, random_state=0)
    x = torch.from_numpy(X).float()
    x, x_valid, x_test = ((x - x[:rows].mean(0)) / x[:rows].std(0)).split(rows)
    y, y_valid, y_test = torch.from_numpy(Y).split(rows)
    linear = nn.Linear(30, 8)
    losses = {
        "binary cross-entropy": (nn.BCEWithLogitsLoss(), y.float()),
        "MetricLoss('f1')": (ev.MetricLoss("f1", task="multilabel"), y),
    }
    print(f"macro F1 of 8 labels on {rows:,} new rows   at 0.5  one threshold per label")
    for name, (loss, targets) in losses.items():
        model = train(copy.deepcopy(linear), loss, x, targets, epochs)
        with torch.no_grad():
            p_valid, p_test = model(x_valid).sigmoid(), model(x_test).sigmoid()
        rule = ev.decisions.fit_rule(p_valid, y_valid, "f1")
        plain = f1_score(y_test, p_test >= 0.5, average="macro", zero_division=0)
        ruled = f1_score(y_test, rule.predict(p_test), average="macro", zero_division=0)
        print(f"{name:39}  {plain:6.3f}  {ruled:23.3f}")


if __name__ == "__main__":
    main(small="--small" in sys.argv[1:])
