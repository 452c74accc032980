"""Find as many positives as possible while nine of ten alarms are right: recall under precision >= 0.9.

LightGBM decides at 0.5, whatever precision that gives. `MetricBooster` takes the requirement as a
constraint, for its rule alone (`strategy="log_loss"`) or also for its last rounds. Half of the bundled
mammography data (2.3 % positives) is for training, the other half for the numbers below. What is
satisfied exactly on old rows may be violated on new ones; with enough positives, `confidence=0.9` adds a
margin. Requires the extra `boost`.

python examples/recall_at_precision.py
"""

import sys

from lightgbm import LGBMClassifier
from sklearn.metrics import precision_score, recall_score
from sklearn.model_selection import train_test_split

import evalign as ev


def main(small: bool) -> None:
    data = ev.datasets.load("mammography")
    X, X_test, y, y_test = train_test_split(data.X, data.y, test_size=0.5, stratify=data.y, random_state=0)
    common = {"n_estimators": 30 if small else 200, "n_jobs": 1, "random_state": 0}
    goal = {"metric": "recall", "constraints": ["precision >= 0.9"], "n_bags": 2 if small else 5}
    models = {
        "LightGBM at 0.5": LGBMClassifier(**common, verbose=-1),
        "LightGBM + rule": ev.MetricBooster(**goal, **common, strategy="log_loss"),
        "MetricBooster": ev.MetricBooster(**goal, **common),
    }
    print(f"on {len(y_test):,} new rows  recall  precision")
    for name, model in models.items():
        predicted = model.fit(X, y).predict(X_test)
        recall, precision = recall_score(y_test, predicted), precision_score(y_test, predicted)
        print(f"{name:17}  {recall:6.3f}  {precision:9.3f}")


if __name__ == "__main__":
    main(small="--small" in sys.argv[1:])
