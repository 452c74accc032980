"""`MetricClassifier` with constraints and a decision rule: what it satisfies, reports and saves."""

import json

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.metrics import f1_score, precision_score, recall_score
from torch import nn

from evalign import metrics
from evalign.decisions import fit_rule
from evalign.estimators import MetricClassifier, PhaseSettings, build_phases
from evalign.estimators._strategies import STRATEGIES
from evalign.losses import MetricLoss
from evalign.softsets import LinearStep
from evalign.training import Fit, Phase, TrainingData
from evalign.training._checkpoint import Checkpoint

BOUND = "precision() >= 0.8"
FAST = {
    "rule": False,
    "hidden": (16,),
    "max_epochs": 25,
    "patience": 5,
    "learning_rate": 0.01,
    "random_state": 0,
}


def data(classes=2, rows=900, names=False):
    X, y = make_classification(
        rows, 8, n_informative=5, n_redundant=0, n_classes=classes, weights=[0.85] if classes == 2 else None,
        flip_y=0.1, class_sep=1.3, random_state=1,
    )  # fmt: skip
    y = np.array(["blue", "green", "red"])[y] if names else y
    return (X[: rows // 2], y[: rows // 2]), (X[rows // 2 :], y[rows // 2 :])


def constrained(metric="recall", **options):
    return MetricClassifier(metric, **{**FAST, "constraints": ["precision >= 0.8"], **options})


@pytest.mark.parametrize("rule", [False, True])
@pytest.mark.parametrize("strategy", ["aligned", "east", "softset", "cross_entropy", "focal"])
def test_satisfaction_is_that_of_scikit_learn(strategy, rule):
    """On the validation rows, for the classes predicted there."""
    train, valid = data()
    model = constrained(strategy=strategy, rule=rule, max_epochs=100).fit(*train, validation_data=valid)
    guess = model.predict(valid[0])
    assert list(model.satisfaction_) == [BOUND]
    facts = model.satisfaction_[BOUND]
    assert facts["value"] == pytest.approx(precision_score(valid[1], guess))
    assert facts["slack"] == pytest.approx(facts["value"] - 0.8)
    assert facts["satisfied"] is True
    assert facts["slack"] >= 0
    assert model.validation_score_ == pytest.approx(recall_score(valid[1], guess))
    assert (model.rule_ is not None) == rule


def test_without_the_constraint_precision_is_lower():
    train, valid = data()
    free = MetricClassifier("recall", **FAST).fit(*train, validation_data=valid)
    assert free.satisfaction_ == {}
    assert precision_score(valid[1], free.predict(valid[0])) < 0.8
    assert "valid_violation" not in free.history_[0]


def test_the_history_has_the_violation_and_the_best_feasible_epoch_is_kept():
    train, valid = data()
    model = constrained(strategy="cross_entropy").fit(*train, validation_data=valid)
    feasible = [row["valid_metric"] for row in model.history_ if row["valid_violation"] == 0]
    assert 0 < len(feasible) < len(model.history_)
    assert model.validation_score_ == max(feasible)
    assert max(feasible) < max(row["valid_metric"] for row in model.history_), "a better one is infeasible"


class Scripted(Fit):
    """Epoch k sets the weight to k; its validation metric and violation are written in advance."""

    def __init__(self, script, **options):
        model, table = nn.Linear(1, 2), TrainingData(torch.zeros(4, 1), torch.tensor([0, 1, 0, 1]))
        bounds = metrics.as_constraints("precision >= 0.9")
        super().__init__(
            model, table, table, metrics.recall(), batch_size=4, seed=0, constraints=bounds, **options
        )
        self.script, self.at = script, 0

    def _epoch(self, phase, optimizer):
        self.at += 1
        nn.init.constant_(self.model.weight, self.at)
        return 0.0

    def _evaluate(self, phase):
        value, miss = self.script[self.at]
        self.predicted, self.num_classes = torch.zeros(4, dtype=torch.long), 2
        return {"valid_loss": 1.0 / (1 + self.at), "valid_metric": value, "valid_violation": miss}


@pytest.mark.parametrize(
    ("script", "best"),
    [
        ([(0.0, 0.9), (0.9, 0.1), (0.5, 0.0), (0.6, 0.0), (0.95, 0.01)], 3),
        ([(0.0, 0.9), (0.9, 0.3), (0.2, 0.1), (0.99, 0.2), (0.1, 0.2)], 2),
        ([(0.0, 0.9), (0.1, 0.2), (0.3, 0.2), (0.2, 0.2), (0.1, 0.3)], 2),
    ],
)
def test_the_best_feasible_weights_or_the_least_infeasible_are_kept(script, best):
    fit = Scripted(script)
    fit.run([Phase("loss", nn.CrossEntropyLoss(), 0.1, max_epochs=4, patience=9, by_metric=True)])
    assert fit.model.weight.flatten().tolist() == [best, best]


def test_training_continues_while_the_loss_falls_even_if_nothing_is_feasible():
    """The loss decides whether training stalls: otherwise a phase would end before it is feasible."""
    fit = Scripted([(0.0, 0.5)] * 10 + [(0.1, 0.0)])
    fit.run([Phase("loss", nn.CrossEntropyLoss(), 0.1, max_epochs=10, patience=2, by_metric=True)])
    assert len(fit.history) == 10
    assert fit.model.weight[0, 0] == 10


def test_multipliers_get_time_to_satisfy_the_constraints():
    """A loss with constraints is trained beyond its patience until they are satisfied once."""
    loss = MetricLoss("recall", task="multiclass", step=LinearStep(0.2), constraints="precision >= 0.9")
    for script, epochs in (([(0.5, 0.3)] * 6 + [(0.4, 0.0)] + [(0.4, 0.0)] * 9, 8), ([(0.5, 0.3)] * 16, 15)):
        fit = Scripted(script)
        fit._evaluate = lambda phase, fit=fit: {**Scripted._evaluate(fit, phase), "valid_loss": 1.0}
        fit.run([Phase("loss", loss, 0.1, max_epochs=15, patience=2, by_metric=True)])
        assert len(fit.history) == epochs


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_strategy_uses_its_constraints(strategy):
    bounds = metrics.as_constraints("precision >= 0.8")
    targets = torch.tensor([0, 1] * 10)
    plan = build_phases(strategy, PhaseSettings(metrics.f1(), targets, 2, None, 0.1, 5, 5, bounds))
    assert plan[-1].by_metric
    assert not any(phase.by_metric for phase in plan[:-1])
    trained = [phase.loss.constraints for phase in plan if isinstance(phase.loss, MetricLoss)]
    assert trained == ([bounds] if strategy in ("aligned", "east", "softset") else [])
    free = build_phases(strategy, PhaseSettings(metrics.f1(), targets, 2, None, 0.1, 5, 5))
    assert free[-1].by_metric == (strategy == "aligned")


@pytest.mark.parametrize("rule", [False, True])
def test_violated_constraints_are_reported(rule):
    train, valid = data()
    bounds = ["tp / (tp + fp) >= 1.25", "specificity >= 0.01"]  # out of reach, but not known to be
    model = constrained(constraints=bounds, rule=rule, max_epochs=5)
    with pytest.warns(UserWarning, match=r"\(tp \+ fp\) >= 1.25 is violated by 0\.\d+\. Try") as caught:
        model.fit(*train, validation_data=valid)
    assert caught[0].filename == __file__
    violated, satisfied = model.satisfaction_.values()
    assert not violated["satisfied"]
    assert violated["slack"] == pytest.approx(precision_score(valid[1], model.predict(valid[0])) - 1.25)
    assert satisfied["satisfied"] is True


@pytest.mark.parametrize("calibrate", [False, True])
def test_the_rule_decides(calibrate):
    train, valid = data()
    weight = np.random.default_rng(0).uniform(0.5, 2, len(train[1]))
    model = MetricClassifier("f1", calibrate=calibrate, strategy="cross_entropy", **FAST | {"rule": True})
    model.fit(*train, sample_weight=weight, validation_data=valid)
    p = model.predict_proba(valid[0])
    np.testing.assert_array_equal(model.predict(valid[0]), model.rule_.predict(p))
    assert model.validation_score_ == model.rule_.value
    assert model.rule_.value == pytest.approx(f1_score(valid[1], model.predict(valid[0])))
    np.testing.assert_allclose(model.rule_.thresholds, fit_rule(p, valid[1], "f1").thresholds)
    assert (model.predict(valid[0]) != p.argmax(1)).any(), "or the test shows nothing"


def test_the_rule_of_bags_is_fitted_on_all_rows():
    train, _ = data(rows=1000)
    bags = MetricClassifier("f1", n_bags=3, strategy="cross_entropy", **FAST | {"rule": True}).fit(*train)
    plain = clone(bags).set_params(rule=False).fit(*train)
    assert bags.validation_score_ == bags.rule_.value >= plain.validation_score_
    p = bags.predict_proba(train[0])
    np.testing.assert_array_equal(bags.predict(train[0]), p[:, 1] >= bags.rule_.threshold)


def test_more_classes_with_names():
    train, valid = data(classes=3, names=True)
    bound = "min(recall) >= 0.5"
    model = MetricClassifier("f1", constraints=bound, **FAST | {"rule": True}).fit(
        *train, validation_data=valid
    )
    guess = model.predict(valid[0])
    assert set(guess) <= set(model.classes_)
    assert model.rule_.value == pytest.approx(f1_score(valid[1], guess, average="macro"))
    least = recall_score(valid[1], guess, average=None).min()
    assert model.satisfaction_[bound]["value"] == pytest.approx(least)
    assert least >= 0.5


def test_a_fit_without_a_rule_removes_the_old_one():
    train, valid = data()
    model = MetricClassifier("f1", **{**FAST, "rule": True, "max_epochs": 2}).fit(
        *train, validation_data=valid
    )
    model.set_params(rule=False).fit(*train, validation_data=valid)
    assert model.rule_ is None
    np.testing.assert_array_equal(model.predict(valid[0]), model.predict_proba(valid[0]).argmax(1))


def test_without_rule_is_a_copy_that_predicts_the_largest_probability():
    train, valid = data()
    model = MetricClassifier("f1", strategy="cross_entropy", **FAST | {"rule": True})
    plain = model.fit(*train, validation_data=valid).without_rule()
    p = model.predict_proba(valid[0])
    np.testing.assert_array_equal(plain.predict_proba(valid[0]), p)
    np.testing.assert_array_equal(plain.predict(valid[0]), p.argmax(1))
    assert (plain.rule, plain.rule_) == (False, None)
    np.testing.assert_array_equal(model.predict(valid[0]), model.rule_.predict(p))


def test_save_and_load(tmp_path):
    train, valid = data()
    model = constrained(constraints=(metrics.precision() >= 0.8), rule=True).fit(
        *train, validation_data=valid
    )
    model.save(tmp_path)
    facts = json.loads((tmp_path / "model.json").read_text())
    assert facts["settings"]["constraints"] == [BOUND]
    again = MetricClassifier.load(tmp_path)
    np.testing.assert_array_equal(again.predict(valid[0]), model.predict(valid[0]))
    assert (again.predict(valid[0]) != again.predict_proba(valid[0]).argmax(1)).any(), "the rule matters"
    assert again.satisfaction_ == model.satisfaction_
    assert again.validation_score_ == model.validation_score_
    assert [bound.name for bound in again.constraints] == [BOUND]
    assert again.rule is True


def test_files_of_the_first_format_are_read(tmp_path):
    train, valid = data()
    model = MetricClassifier("f1", **{**FAST, "max_epochs": 2}).fit(*train, validation_data=valid)
    model.save(tmp_path)
    facts = json.loads((tmp_path / "model.json").read_text())
    facts["format"] = 1
    for name in ("constraints", "rule"):
        del facts["settings"][name]
    for name in ("satisfaction", "rule"):
        del facts[name]
    (tmp_path / "model.json").write_text(json.dumps(facts))
    again = MetricClassifier.load(tmp_path)
    np.testing.assert_array_equal(again.predict(valid[0]), model.predict(valid[0]))
    assert (again.constraints, again.rule, again.satisfaction_) == ((), False, {})


def test_bad_files_are_rejected(tmp_path):
    train, valid = data()
    model = constrained(rule=True, max_epochs=2, constraints=()).fit(*train, validation_data=valid)
    model.save(tmp_path)
    facts = json.loads((tmp_path / "model.json").read_text())
    other = {**json.loads(facts["rule"]), "classes": [0, 7]}
    for rule in (7, "{}", "no json", json.dumps(other)):
        (tmp_path / "model.json").write_text(json.dumps({**facts, "rule": rule}))
        with pytest.raises(ValueError, match="Expected `"):
            MetricClassifier.load(tmp_path)
    settings = {**facts["settings"], "constraints": ["precision > 2"]}
    (tmp_path / "model.json").write_text(json.dumps({**facts, "settings": settings}))
    with pytest.raises(ValueError, match="Expected `constraint`"):
        MetricClassifier.load(tmp_path)


def test_a_constraint_without_a_text_form_is_not_saved(tmp_path):
    train, valid = data()
    own = metrics.metric(lambda c: c.recall, name="own") >= 0.0
    model = constrained(constraints=[own], max_epochs=2).fit(*train, validation_data=valid)
    assert model.satisfaction_["own() >= 0"]["satisfied"]
    with pytest.raises(ValueError, match="`constraints` that can be written as text"):
        model.save(tmp_path)


def test_parameters_are_stored_untouched():
    bounds = [metrics.precision() >= 0.8, "specificity >= 0.1"]
    model = constrained(constraints=bounds)
    assert model.get_params()["constraints"] is bounds
    copied = clone(model)
    assert [metrics.as_constraint(bound).name for bound in copied.constraints] == [
        BOUND,
        "specificity() >= 0.1",
    ]
    train, valid = data()
    copied.fit(*train, validation_data=valid)
    assert model.constraints is bounds
    assert "precision() >= 0.8" in repr(model)
    assert MetricClassifier().get_params()["constraints"] == ()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"constraints": "precision"}, "`constraint` to be a metric"),
        ({"constraints": ["auroc >= 0.9"]}, "`constraint` on a metric that gives one number"),
        ({"constraints": {"precision": 0.9}}, "`constraints` to be a list"),
        ({"constraints": "precision(average='binary') >= 0.1"}, "other than 'binary' for more than two"),
        ({"rule": "yes"}, "`rule` to be True or False, but got 'yes'"),
    ],
)
def test_bad_settings_are_rejected(options, message):
    train, _ = data(classes=3)
    with pytest.raises(ValueError, match=message):
        constrained(**options).fit(*train)


class KilledError(Exception):
    """Ends a run in the middle."""


def test_an_interrupted_run_resumes_with_its_multipliers(tmp_path):
    (X, y), _ = data()
    table = TrainingData(torch.tensor(X, dtype=torch.float32), torch.tensor(y))
    bounds = metrics.as_constraints("precision >= 0.8")

    def run(checkpoint, last=99):
        def report(row):
            if row["epoch"] == last:
                raise KilledError

        torch.manual_seed(0)
        loss = MetricLoss("recall", memory=0.5, constraints=bounds)
        fit = Fit(
            nn.Linear(8, 2), table, table, metrics.recall(), batch_size=64, seed=0, constraints=bounds,
            report=report, checkpoint=checkpoint,
        )  # fmt: skip
        fit.run([Phase("metric", loss, 0.05, max_epochs=12, patience=3, by_metric=True)])
        return fit, loss

    whole, loss = run(None)
    with pytest.raises(KilledError):
        run(Checkpoint(tmp_path, "one"), last=7)
    resumed, again = run(Checkpoint(tmp_path, "one"))
    assert resumed.history == whole.history
    assert loss.multipliers > 0
    assert torch.equal(again.multipliers, loss.multipliers)
    assert torch.equal(again.running_hard, loss.running_hard)
    assert torch.equal(resumed.model.weight, whole.model.weight)
