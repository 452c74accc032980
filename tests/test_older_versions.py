"""Files of version 0.1 load and predict as they did then, or are rejected with a hint on what to do."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

import evalign as ev
from evalign._files import FORMAT

#: Written by evalign 0.1.0, before settings and facts had their present names: a network with two bags, a
#: constraint, a rule, class weights and a calibration; a booster with rounds on the metric; a decided forest;
#: a rule that violates its constraint; the state of a loss; finished trials; and the predictions for the
#: first 20 rows. Never written again: a newer format gets a folder of its own.
STORED = Path(__file__).parent / "fixtures" / "version-0.1"
EXPECTED = json.loads((STORED / "expected.json").read_text())
DATA = np.loadtxt(STORED / "data.csv", delimiter=",")
X, Y = DATA[:, :4], DATA[:, 4].astype(int)
CLASSIFIERS = {"network": ev.MetricClassifier, "booster": ev.MetricBooster, "decision": ev.MetricDecision}


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_classifiers_predict_as_they_did(name):
    model = CLASSIFIERS[name].load(STORED / name)
    assert model.predict(X[:20]).tolist() == EXPECTED[name]["predict"]
    np.testing.assert_allclose(model.predict_proba(X[:20])[:, 1], EXPECTED[name]["proba"], rtol=0, atol=1e-12)


def test_renamed_settings_have_their_values():
    network = ev.MetricClassifier.load(STORED / "network")
    assert (network.learning_rate, network.n_bags, network.rule) == (0.01, 2, True)
    assert network.class_weight == {0: 1.0, 1: 2.0}
    assert network.history_[0]["valid_violation"] == pytest.approx(0.2681159)
    assert [one.name for one in network.constraints] == ["precision() >= 0.5"]
    assert ev.MetricBooster.load(STORED / "booster").n_bags == 2
    decision = ev.MetricDecision.load(STORED / "decision")
    assert [rule.feasible for rule in decision.fold_rules_] == [False, True, False, False, True]


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_saved_again_they_have_the_present_format(tmp_path, name):
    CLASSIFIERS[name].load(STORED / name).save(tmp_path)
    facts = json.loads((tmp_path / "model.json").read_text())
    assert facts["format"] == FORMAT
    assert not {"lr", "bags"} & set(facts["settings"])
    assert '"missed"' not in json.dumps(facts)
    again = CLASSIFIERS[name].load(tmp_path)
    assert again.predict(X[:20]).tolist() == EXPECTED[name]["predict"]


def test_a_rule_has_its_threshold_and_violations():
    rule = ev.decisions.DecisionRule.from_json((STORED / "rule.json").read_text())
    assert rule.threshold == EXPECTED["rule"]["threshold"]
    assert rule.violations == EXPECTED["rule"]["violations"]


def test_the_state_of_a_loss_loads():
    loss = ev.MetricLoss("recall", memory=0.9, constraints=["precision >= 0.9"])
    loss.load_state_dict(torch.load(STORED / "loss.pt", weights_only=True))
    assert loss.multipliers.tolist() == EXPECTED["loss"]["multipliers"]
    assert loss.running_confusion.tolist() == EXPECTED["loss"]["running_confusion"]
    assert loss.temperature == EXPECTED["loss"]["temperature"]


def test_a_trials_file_is_rejected_and_left_alone(tmp_path):
    file = shutil.copy(STORED / "trials.jsonl", tmp_path)
    message = "was written by an older version of evalign; delete it or choose another file"
    with pytest.raises(ValueError, match=f"`trials_file` of format {FORMAT}, but got .*{message}"):
        ev.compare(X, Y, "f1", methods={"logistic": LogisticRegression()}, n_repeats=2, trials_file=file)
    assert Path(file).read_bytes() == (STORED / "trials.jsonl").read_bytes()


def test_a_checkpoint_without_a_format_is_rejected(tmp_path):
    """As version 0.1 wrote it: the settings that identify a run have other names now, too."""
    settings = {"hidden": (4,), "max_epochs": 2, "random_state": 0, "checkpoint": tmp_path}
    ev.MetricClassifier("f1", **settings).fit(X, Y)
    file = tmp_path / "bag-0" / "checkpoint.json"
    facts = json.loads(file.read_text())
    assert facts.pop("format") == FORMAT
    file.write_text(json.dumps(facts))
    with pytest.raises(ValueError, match="older version of evalign: delete it or choose another folder"):
        ev.MetricClassifier("f1", **settings).fit(X, Y)


@pytest.mark.parametrize("file", ["network/model.json", "trials.jsonl", "rule.json"])
def test_a_newer_format_asks_for_an_upgrade(tmp_path, file):
    settings = {"methods": {"logistic": LogisticRegression()}, "trials_file": tmp_path / "trials.jsonl"}
    shutil.copytree(STORED / "network", tmp_path / "network")
    shutil.copy(STORED / "rule.json", tmp_path)
    ev.compare(X, Y, "f1", n_repeats=1, **settings)
    facts = json.loads((tmp_path / file).read_text())
    (tmp_path / file).write_text(json.dumps({**facts, "format": FORMAT + 1}))
    read = {
        "network/model.json": lambda: ev.MetricClassifier.load(tmp_path / "network"),
        "trials.jsonl": lambda: ev.compare(X, Y, "f1", **settings),
        "rule.json": lambda: ev.decisions.DecisionRule.from_json((tmp_path / file).read_text()),
    }[file]
    with pytest.raises(ValueError, match=rf"of format {FORMAT} or older, but got {FORMAT + 1}\. Upgrade"):
        read()
