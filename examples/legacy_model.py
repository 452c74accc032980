"""Improve a model that nobody may retrain: fit a decision rule around it, on recent labelled rows.

The logistic regression was fitted long ago and is only ever called. `MetricDecision(cv="prefit")` leaves
it alone and chooses the threshold that is best for MCC on rows the model has not seen. The rule is saved
as JSON, to be put wherever the model runs. MCC on new rows is printed for both.

python examples/legacy_model.py
"""

import sys

from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import matthews_corrcoef
from sklearn.model_selection import train_test_split

import evalign as ev


def main(small: bool) -> None:
    X, y = make_classification(
        3000 if small else 30_000, n_informative=5, weights=[0.95], flip_y=0.02, class_sep=0.7, random_state=0
    )
    X, X_new, y, y_new = train_test_split(X, y, test_size=0.6, stratify=y, random_state=0)
    X_recent, X_test, y_recent, y_test = train_test_split(
        X_new, y_new, test_size=0.5, stratify=y_new, random_state=0
    )
    legacy = LogisticRegression().fit(X, y)

    decided = ev.MetricDecision(legacy, metric="mcc", cv="prefit").fit(X_recent, y_recent)
    rule = ev.decisions.DecisionRule.from_json(decided.rule_.to_json())  # what the model's host needs

    print(f"MCC on {len(y_test):,} new rows")
    print(f"as it is, threshold 0.5         {matthews_corrcoef(y_test, legacy.predict(X_test)):.3f}")
    ruled = matthews_corrcoef(y_test, rule.predict(legacy.predict_proba(X_test)))
    print(f"MetricDecision, threshold {rule.threshold:.2f}  {ruled:.3f}")


if __name__ == "__main__":
    main(small="--small" in sys.argv[1:])
