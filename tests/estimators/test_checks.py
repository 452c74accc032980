"""scikit-learn's own checks of an estimator."""

from sklearn.utils.estimator_checks import parametrize_with_checks

import evalign as ev

ROWS = "Mini-batches and the validation part depend on the rows, as for scikit-learn's MLPClassifier."
RULE = "It expects the class with the largest probability, and the rule for F1 decides otherwise."
FAILURES = {f"check_sample_weight_equivalence_on_{kind}_data": ROWS for kind in ("dense", "sparse")}
RULE_FAILURES = dict.fromkeys(("check_class_weight_classifiers", "check_classifiers_train"), RULE)
MODELS = [
    ev.MetricClassifier(
        rule=False, hidden=(4,), dropout=0.0, learning_rate=0.05, max_epochs=15, patience=3, random_state=0
    ),
    ev.MetricClassifier(hidden=(4,), max_epochs=3, random_state=0),
]


@parametrize_with_checks(
    MODELS,
    expected_failed_checks=lambda model: FAILURES | RULE_FAILURES if model.rule else FAILURES,
    xfail_strict=True,
)
def test_check(estimator, check):
    check(estimator)
