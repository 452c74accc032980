"""Decide by a table of costs: what each kind of mistake costs is the metric.

A random forest for three classes of machines predicts the most probable class. `MetricDecision` wraps
the same forest and chooses the class that is cheapest by a rule, fitted on out-of-bag probabilities: the
forest is trained once. The mean cost per machine on new rows is printed for both.

python examples/cost_table.py
"""

import sys

import numpy as np
import pandas as pd
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

import evalign as ev

STATES = ["healthy", "worn", "broken"]
COSTS = pd.DataFrame(  # in euros: rows are what is true, columns what we predict
    [[0, 20, 50], [40, 0, 30], [400, 200, 0]], index=STATES, columns=STATES
)


def main(small: bool) -> None:
    X, state = make_classification(
        1500 if small else 12_000, n_features=12, n_informative=6, n_classes=3, weights=[0.85, 0.1],
        class_sep=0.8, random_state=0,
    )  # fmt: skip
    y = np.array(STATES)[state]
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)
    cost = ev.metrics.cost(COSTS)
    forest = RandomForestClassifier(50 if small else 300, min_samples_leaf=3, random_state=0, n_jobs=1)
    decision = ev.MetricDecision(forest, metric=cost, cv="out_of_bag", random_state=0)
    print(f"mean cost per machine, {len(y_test):,} new ones")
    for name, model in (("most probable class", forest), ("MetricDecision", decision)):
        predicted = model.fit(X, y).predict(X_test)
        missed = np.mean(predicted[y_test == "broken"] == "healthy")
        price = cost.score(y_test, predicted)
        print(f"{name:20} {price:6.2f} euros; {missed:.1%} of the broken taken for healthy")


if __name__ == "__main__":
    main(small="--small" in sys.argv[1:])
