"""`MetricDecision.save` and `load`: the same decisions, and nothing dangerous is loaded."""

import hashlib
import json
import zipfile

import numpy as np
import pytest
import skops.io
from sklearn.datasets import make_classification
from sklearn.ensemble import BaggingClassifier, ExtraTreesClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from evalign import MetricDecision
from evalign._skops import import_skops


def data(classes=2):
    X, y = make_classification(200, 6, n_informative=4, n_classes=classes, random_state=0)
    return X, np.array(["no", "yes", "perhaps"])[y]


def forest():
    return MetricDecision(RandomForestClassifier(5, random_state=0), "f1", cv=2, random_state=0)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize(
    ("estimator", "cv"),
    [
        (RandomForestClassifier(5, random_state=0), 2),
        (RandomForestClassifier(5, random_state=0), "out_of_bag"),
        (ExtraTreesClassifier(5, random_state=0), 2),
        (LinearSVC(random_state=0), 2),  # scores only: the calibration is saved too
        (make_pipeline(StandardScaler(), LogisticRegression()), 2),
    ],
)
def test_loaded_equals_saved(tmp_path, estimator, cv, classes):
    X, y = data(classes)
    model = MetricDecision(estimator, "f1", constraints=["recall >= 0.1"], cv=cv, random_state=0).fit(X, y)
    model.save(tmp_path / "model")
    again = MetricDecision.load(tmp_path / "model")
    for name in ("predict", "predict_proba", "decision_function"):
        np.testing.assert_array_equal(getattr(again, name)(X), getattr(model, name)(X))
    assert again.validation_score_ == model.validation_score_
    assert [rule.to_json() for rule in again.fold_rules_] == [rule.to_json() for rule in model.fold_rules_]
    np.testing.assert_array_equal(again.fit(X, y).predict(X), model.predict(X))


def test_classifiers_that_cannot_be_saved_safely_are_rejected(tmp_path):
    X, y = data()
    for estimator, message in [
        (KNeighborsClassifier(), "own types or ours, to be saved, but got sklearn"),
        (BaggingClassifier(n_estimators=2, max_features=0.5, random_state=0), "trees of 6 features"),
    ]:
        model = MetricDecision(estimator, "f1", cv=2, random_state=0).fit(X, y)
        with pytest.raises(ValueError, match=message):
            model.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


def replace_estimator(folder, content):
    """Replace the estimator by an archive of skops, with its checksum."""
    facts = json.loads((folder / "model.json").read_text())
    digest = hashlib.sha256(content).hexdigest()
    file = f"model-{digest[:16]}.skops"
    (folder / file).write_bytes(content)
    facts["estimator"] = {"kind": "skops"}
    facts["parts"] = {"estimator.skops": {"file": file, "sha256": digest}}
    (folder / "model.json").write_text(json.dumps(facts))


@pytest.mark.parametrize("content", [b"", b"\x80\x04cos\nsystem\n", b"PK\x03\x04 no archive"])
def test_a_pickle_or_garbage_instead_of_the_classifier_is_rejected(tmp_path, content):
    X, y = data()
    forest().fit(X, y).save(tmp_path)
    replace_estimator(tmp_path, content)
    with pytest.raises(ValueError, match="Expected `folder` with complete parts"):
        MetricDecision.load(tmp_path)


def test_untrusted_types_are_rejected(tmp_path):
    X, y = data()
    forest().fit(X, y).save(tmp_path)
    estimator = RandomForestClassifier(2, random_state=0).fit(X, y)
    estimator.stranger = np.random.default_rng(0).integers  # a bound method: skops needs trust for it
    replace_estimator(tmp_path, skops.io.dumps(estimator))
    with pytest.raises(ValueError, match="trusted types only"):
        MetricDecision.load(tmp_path)


def forged(model, change):
    """The forest of a model, with the nodes of one tree changed."""
    tree = model.estimator_.estimators_[0].tree_
    state = tree.__getstate__()
    change(state["nodes"])
    tree.__setstate__(state)
    return skops.io.dumps(model.estimator_)


@pytest.mark.parametrize(
    "change",
    [
        lambda nodes: nodes["left_child"].__setitem__(0, 10**6),
        lambda nodes: nodes["right_child"].__setitem__(0, 0),  # a path that never ends
        lambda nodes: nodes["feature"].__setitem__(0, 6),
        lambda nodes: nodes["feature"].__setitem__(0, -5),
        lambda nodes: nodes["left_child"].__setitem__(0, -1),  # half a leaf
    ],
)
def test_trees_with_invalid_branches_are_rejected(tmp_path, change):
    X, y = data()
    model = forest().fit(X, y)
    model.save(tmp_path)
    replace_estimator(tmp_path, forged(model, change))
    with pytest.raises(ValueError, match="own nodes"):
        MetricDecision.load(tmp_path)


def test_a_forest_that_claims_other_features_is_rejected(tmp_path):
    X, y = data()
    model = forest().fit(X, y)
    model.save(tmp_path)
    model.estimator_.n_features_in_ = 2
    replace_estimator(tmp_path, skops.io.dumps(model.estimator_))
    with pytest.raises(ValueError, match="trees of 2 features"):
        MetricDecision.load(tmp_path)


def test_other_classes_and_a_changed_file_are_rejected(tmp_path):
    X, y = data()
    forest().fit(X, y).save(tmp_path)
    other = forest().fit(X, np.where(y == "no", "nein", "ja"))
    part = next(tmp_path.glob("*.safetensors"))
    whole = part.read_bytes()
    part.write_bytes(whole[:-1] + b"x")
    with pytest.raises(ValueError, match="another checksum"):
        MetricDecision.load(tmp_path)
    replace_estimator(tmp_path, skops.io.dumps(other.estimator_))
    with pytest.raises(ValueError, match="for the classes of the model"):
        MetricDecision.load(tmp_path)


def test_the_archive_is_compressed(tmp_path):
    X, y = data()
    MetricDecision(LinearSVC(random_state=0), "f1", cv=2, random_state=0).fit(X, y).save(tmp_path)
    with zipfile.ZipFile(next(tmp_path.glob("*.skops"))) as archive:
        assert {one.compress_type for one in archive.infolist()} == {zipfile.ZIP_DEFLATED}


def test_without_skops_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "skops.io", None)
    with pytest.raises(ImportError, match=r"evalign\[cli\]"):
        import_skops()
