"""Save and load: nothing is lost, half written or executed."""

import errno
import hashlib
import io
import json
import os
import pickle
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import make_classification
from torch import nn

import evalign as ev
from evalign import metrics

X, Y = make_classification(120, n_features=6, n_informative=4, weights=[0.7], random_state=0)


def name(value):
    """A test id that is the same in every process."""
    return re.sub(" at 0x[0-9a-f]+", "", str(value))


def classifier(metric="f1", strategy="aligned", **settings):
    small = {
        "rule": False,
        "hidden": (8,),
        "learning_rate": 0.02,
        "max_epochs": 2,
        "patience": 2,
        "random_state": 0,
    }
    return ev.MetricClassifier(metric, strategy=strategy, **(small | settings))


def load(folder, **settings):
    return ev.MetricClassifier.load(folder, **settings)


@pytest.fixture(scope="module")
def model():
    return classifier().fit(X, Y)


@pytest.fixture(scope="module")
def newer():
    return classifier(random_state=1).fit(X, Y)


@pytest.fixture
def folder(tmp_path, model):
    model.save(tmp_path / "model")
    return tmp_path / "model"


def tensors(folder):
    (file,) = folder.glob("*.safetensors")
    return file


def edit(folder, **changes):
    """Change facts in the JSON; `settings__x` changes the setting x."""
    facts = json.loads((folder / "model.json").read_text())
    for name, value in changes.items():
        owner = facts["settings"] if name.startswith("settings__") else facts
        owner[name.removeprefix("settings__")] = value
    (folder / "model.json").write_text(json.dumps(facts))


def edit_part(folder, **changes):
    """Change what the JSON lists for the tensors: `file` or `sha256`."""
    facts = json.loads((folder / "model.json").read_text())
    facts["parts"]["tensors"] |= changes
    (folder / "model.json").write_text(json.dumps(facts))


def same(one, other):
    np.testing.assert_array_equal(one.decision_function(X), other.decision_function(X))


def content(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


# Round trips


@pytest.mark.parametrize("strategy", ["aligned", "cross_entropy", "softset", "surrogate_fbeta"])
def test_round_trip(tmp_path, strategy):
    model = classifier("fbeta(beta=2)", strategy).fit(X, Y)
    model.save(tmp_path)
    loaded = load(tmp_path)
    for method in ("predict", "predict_proba", "decision_function"):
        np.testing.assert_array_equal(getattr(loaded, method)(X), getattr(model, method)(X))
    assert loaded.get_params() == model.get_params()
    for name in ("history_", "n_iter_", "temperature_", "validation_score_", "n_features_in_"):
        assert getattr(loaded, name) == getattr(model, name)
    assert not any(network.training for network in loaded.networks_)


@pytest.mark.parametrize("names", [
    np.array(["no", "yes"]), np.array(["né", "日本"]), np.array(["no", "yes"], dtype=object),
    np.array([False, True]), np.array([-5, 3]), np.array([1, 2], dtype=np.int8), np.array([-1.0, 1.0]),
    np.array([0, 1], dtype=np.float32), np.array([2**62, 2**62 + 1]),
    np.array([1, 2**64 - 1], dtype=np.uint64),
], ids=lambda names: names.dtype.str)  # fmt: skip
def test_classes_keep_their_type(tmp_path, names):
    model = classifier().fit(X, names[Y])
    model.save(tmp_path)
    loaded = load(tmp_path)
    assert loaded.classes_.dtype == model.classes_.dtype == names.dtype
    assert [type(label) for label in loaded.classes_] == [type(label) for label in model.classes_]
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))


def test_three_classes_and_sparse_features(tmp_path):
    rows = sparse.csr_matrix(X)
    model = classifier().fit(rows, np.arange(120) % 3)
    model.save(tmp_path)
    np.testing.assert_array_equal(load(tmp_path).predict_proba(rows), model.predict_proba(rows))


@pytest.mark.parametrize("settings", [
    {"class_weight": {0: 1, 1: 2.5}}, {"class_weight": {np.int64(0): np.float32(1), np.int64(1): np.int8(2)}},
    {"class_weight": "balanced"}, {"hidden": [8, 4]}, {"hidden": ()}, {"batch_size": 16, "dropout": 0},
    {"learning_rate": np.float64(0.02), "max_epochs": np.int64(2), "random_state": np.int64(3)},
    {"metric": metrics.cost([[0, 1], [5, 0]])}, {"metric": metrics.fbeta(beta=np.float64(0.1))},
    {"metric": metrics.metric("tp / (tp + fp)", average="macro")},
    {"metric": metrics.metric("tp / total", positive=0) + 0.5 * metrics.metric("sqrt(recall)")},
    {"metric": metrics.metric("fp / total", higher_is_better=False)},
    {"metric": "0.5*f1() + 0.5*mcc()"}, {"metric": " tp / (tp + fn)"}, {"metric": metrics.f1},
    {"metric": metrics.recall(positive=0)}, {"metric": 1 - metrics.precision(average="macro")},
], ids=name)  # fmt: skip
def test_settings_are_restored(tmp_path, settings):
    """Equal, though possibly plainer: 2 for np.int64(2), a text for a metric."""
    model = classifier(**settings).fit(X, Y)
    model.save(tmp_path)
    loaded = load(tmp_path)
    same(loaded, model)
    before, after = model.get_params(), loaded.get_params()
    one, other = (metrics.as_metric(params.pop("metric")) for params in (before, after))
    for matrix in torch.rand(5, 2, 2, dtype=torch.float64, generator=torch.manual_seed(0)):
        assert one(matrix) == other(matrix)
    assert one.higher_is_better == other.higher_is_better
    assert tuple(before.pop("hidden")) == tuple(after.pop("hidden"))
    assert after == before


@pytest.mark.parametrize(
    "text", ["fp <= 400", "fp <= 0.9 * total", "precision >= recall - 0.9", "recall[1] >= 0.1"]
)
def test_constraints_are_restored(tmp_path, text):
    model = classifier(strategy="cross_entropy", constraints=[text]).fit(X, Y)
    model.save(tmp_path)
    (restored,) = load(tmp_path).constraints
    assert restored.name == metrics.as_constraint(text).name
    matrix = [[30, 20], [10, 60]]
    assert restored.slack(matrix) == metrics.as_constraint(text).slack(matrix)


def test_a_random_state_object_is_not_saved(tmp_path):
    model = classifier(random_state=np.random.RandomState(0)).fit(X, Y)
    model.save(tmp_path)
    assert load(tmp_path).random_state is None
    same(load(tmp_path), model)


def test_feature_names(tmp_path):
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame(X, columns=["age", "größe", "c d", "", "e", "f"])
    model = classifier().fit(table, Y)
    model.save(tmp_path)
    loaded = load(tmp_path)
    assert loaded.feature_names_in_.tolist() == table.columns.tolist()
    np.testing.assert_array_equal(loaded.predict_proba(table), model.predict_proba(table))
    with pytest.raises(ValueError, match="feature names should match"):
        loaded.predict(table[table.columns[::-1]])


def test_no_feature_names(folder):
    assert not hasattr(load(folder), "feature_names_in_")


def test_a_loaded_model_is_a_full_model(folder, model):
    """It can be cloned, pickled, saved again and trained further."""
    loaded = load(folder)
    same(pickle.loads(pickle.dumps(loaded)), model)
    loaded.save(folder.parent / "again")
    assert content(folder.parent / "again") == content(folder)
    same(clone(loaded).fit(X, Y), model)
    first = loaded.decision_function(X)
    assert np.abs(loaded.set_params(warm_start=True).fit(X, Y).decision_function(X) - first).max() > 1e-6


def test_folder_may_be_text_or_path(tmp_path, model):
    model.save(str(tmp_path / "a" / "b"))
    same(load(str(tmp_path / "a" / "b")), model)


# Custom networks


def small_network(features, classes):
    return nn.Sequential(nn.Linear(features, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, classes))


class Tied(nn.Module):
    def __init__(self, features, classes):
        super().__init__()
        self.one, self.two = nn.Linear(features, features), nn.Linear(features, features)
        self.two.weight = self.one.weight
        self.out = nn.Linear(features, classes)

    def forward(self, x):
        return self.out(self.two(self.one(x).relu()).relu())


@pytest.mark.parametrize("network", [small_network, Tied])
def test_own_network(tmp_path, network):
    model = classifier(network=network).fit(X, Y)
    model.save(tmp_path)
    same(load(tmp_path, network=network), model)
    with pytest.raises(ValueError, match="Expected `network` to be given"):
        load(tmp_path)


@pytest.mark.parametrize("wrong", [
    lambda f, c: nn.Linear(f, c), lambda f, c: small_network(f + 1, c), lambda f, c: small_network(f, c + 1),
    lambda f, c: None,
], ids=["layers", "features", "classes", "none"])  # fmt: skip
def test_wrong_network(tmp_path, wrong):
    classifier(network=small_network).fit(X, Y).save(tmp_path)
    with pytest.raises(ValueError, match="Expected `network`"):
        load(tmp_path, network=wrong)


def test_own_network_as_a_module(tmp_path):
    """The module given for its layers is copied: it keeps its own weights."""
    model = classifier(network=small_network(6, 2)).fit(X, Y)
    model.save(tmp_path)
    other = small_network(6, 2)
    before = other[0].weight.clone()
    same(load(tmp_path, network=other), model)
    assert torch.equal(other[0].weight, before)


def test_network_for_a_model_without_one(folder):
    with pytest.raises(ValueError, match="Expected `network`"):
        load(folder, network=small_network)


# What cannot be saved is rejected before anything is written


def f1(c):
    return c.recall


@pytest.mark.parametrize("metric", [
    lambda c: c.recall, f1, metrics.metric(f1, name="mine"), metrics.metric("tp / total", name="mine"),
    0.5 * metrics.f1() + 0.5 * metrics.metric(f1),
], ids=lambda metric: metrics.as_metric(metric).name)  # fmt: skip
def test_a_metric_that_differs_from_its_text_is_not_saved(tmp_path, metric):
    model = classifier(metric).fit(X, Y)
    with pytest.raises(ValueError, match="Expected `metric` that can be written as text"):
        model.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_labels_that_json_does_not_support(tmp_path):
    days = np.array(["2020-01-01", "2021-01-01"], dtype="datetime64[D]")
    model = classifier().fit(X, days[Y])
    with pytest.raises(ValueError, match="classes|`y`|labels"):
        model.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_what_is_saved_can_be_loaded(tmp_path, model):
    """Even if a setting was changed after `fit`; otherwise it is rejected."""
    changed = pickle.loads(pickle.dumps(model)).set_params(hidden=(4,))
    try:
        changed.save(tmp_path / "model")
    except ValueError as error:
        assert "hidden" in str(error)
        assert not (tmp_path / "model").exists()
    else:
        same(load(tmp_path / "model"), model)


def test_a_rejected_save_leaves_the_old_model(folder, model):
    before = content(folder)
    with pytest.raises(ValueError, match="metric"):
        classifier(lambda c: c.recall).fit(X, Y).save(folder)
    assert content(folder) == before


def test_a_file_instead_of_the_folder(tmp_path, model):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ValueError, match="Expected `folder`"):
        model.save(tmp_path / "file")
    with pytest.raises(ValueError, match="Expected `folder`"):
        load(tmp_path / "file")
    assert (tmp_path / "file").read_text() == "mine"


# A save that is killed


class Killed(BaseException):
    """Not an Exception, as KeyboardInterrupt and SystemExit are not."""


def kill_at(monkeypatch, owner, name, call):
    """Kill the process at the n-th call of a function."""
    real, calls = getattr(owner, name), []

    def dying(*args, **kwargs):
        calls.append(args)
        if len(calls) == call:
            raise Killed
        return real(*args, **kwargs)

    monkeypatch.setattr(owner, name, dying)
    return calls


@pytest.mark.parametrize("call", [1, 2])
@pytest.mark.parametrize(("owner", "name"), [(Path, "replace"), (os, "fsync")], ids=["rename", "flush"])
def test_a_killed_save_leaves_the_old_model(folder, model, newer, monkeypatch, owner, name, call):
    with monkeypatch.context() as patch:
        calls = kill_at(patch, owner, name, call)
        with pytest.raises(Killed):
            newer.save(folder)
        assert len(calls) == call
    same(load(folder), model)
    newer.save(folder)
    same(load(folder), newer)
    assert len(content(folder)) == 2


def test_a_save_killed_while_cleaning_up_is_complete(folder, newer, monkeypatch):
    with monkeypatch.context() as patch:
        real = Path.unlink

        def dying(path, missing_ok=False):
            if path.suffix == ".safetensors":
                raise Killed
            real(path, missing_ok)

        patch.setattr(Path, "unlink", dying)
        with pytest.raises(Killed):
            newer.save(folder)
    same(load(folder), newer)
    newer.save(folder)
    assert len(content(folder)) == 2


def test_a_full_disk_leaves_the_old_model_and_no_leftovers(folder, model, newer, monkeypatch):
    before = content(folder)

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            newer.save(folder)
    assert content(folder) == before


def test_a_killed_first_save_leaves_no_model(tmp_path, model, monkeypatch):
    with monkeypatch.context() as patch:
        kill_at(patch, Path, "replace", 2)
        with pytest.raises(Killed):
            model.save(tmp_path)
    with pytest.raises(ValueError, match="without model.json"):
        load(tmp_path)


def test_saving_twice_and_replacing(folder, model, newer):
    before = content(folder)
    model.save(folder)
    assert content(folder) == before
    newer.save(folder)
    assert len(content(folder)) == 2, "old weights were left"
    same(load(folder), newer)


def test_other_files_are_left_alone(folder, model, newer):
    names = ["notes.txt", "model-mine.safetensors", "weights-old.safetensors", "model.json.bak", ".hidden"]
    for name in names:
        (folder / name).write_text("mine")
    (folder / "model-more").mkdir()
    newer.save(folder)
    same(load(folder), newer)
    for name in names:
        assert (folder / name).read_text() == "mine"
    assert len(list(folder.glob("model-*.safetensors"))) == 2


# Files that are not what was saved


def broken(folder, match="Expected `folder`"):
    with pytest.raises(ValueError, match=match):
        load(folder)


@pytest.mark.parametrize("place", [0, 8, 100, -1])
def test_a_flipped_byte(folder, place):
    data = bytearray(tensors(folder).read_bytes())
    data[place] ^= 1
    tensors(folder).write_bytes(data)
    broken(folder, "checksum")


@pytest.mark.parametrize("share", [0, 0.1, 0.5, 0.999])
def test_truncated_files(folder, share):
    for path in (tensors(folder), folder / "model.json"):
        data = path.read_bytes()
        path.write_bytes(data[: int(share * len(data))])
        broken(folder)
        path.write_bytes(data)
    load(folder)


def test_missing_files(folder):
    tensors(folder).unlink()
    broken(folder, r"but got .* without .*\.safetensors")
    (folder / "model.json").unlink()
    broken(folder, "but got .* without model.json")
    folder.rmdir()
    broken(folder, "but got .* without model.json")


@pytest.mark.parametrize("text", [
    b"", b"{", b"[]", b"3", b"null", b'"model"', b"{}", b"\xff\xfe\x00", b"\x00" * 50, b"[" * 100_000,
], ids=lambda text: repr(text[:12]))  # fmt: skip
def test_garbage_in_json(folder, text):
    (folder / "model.json").write_bytes(text)
    broken(folder)


def test_folders_instead_of_files(folder):
    for path in (tensors(folder), folder / "model.json"):
        data = path.read_bytes()
        path.unlink()
        path.mkdir()
        broken(folder)
        path.rmdir()
        path.write_bytes(data)
    load(folder)


def test_another_kind_and_a_newer_format(folder):
    edit(folder, kind="MetricBooster")
    broken(folder, "with a MetricClassifier, but got MetricBooster")
    edit(folder, kind="MetricClassifier", format=999)
    broken(folder, "but got 999. Upgrade evalign")


@pytest.mark.parametrize("name", [
    "../stolen.safetensors", "..", ".", "", "/etc/passwd", "sub/x.safetensors",
    "sub/../../stolen.safetensors",
    "a\0b", None, 3, ["x"], {"x": 1}, "x" * 5000,
], ids=lambda name: repr(name)[:30])  # fmt: skip
def test_weights_outside_the_folder(folder, name):
    """They are rejected even if they exist and fit."""
    (folder.parent / "stolen.safetensors").write_bytes(tensors(folder).read_bytes())
    (folder / "sub").mkdir()
    (folder / "sub" / "x.safetensors").write_bytes(tensors(folder).read_bytes())
    edit_part(folder, file=name)
    broken(folder)


@pytest.mark.parametrize("changes", [
    {"format": None}, {"format": "1"}, {"kind": None}, {"parts": None}, {"parts": {}},
    {"parts": {"tensors": None}}, {"settings": None}, {"settings": {}}, {"settings": [1]},
    {"history": []}, {"history": None}, {"history": [1]}, {"history": [{}]},
    {"classes": None}, {"classes": [0]}, {"classes": [0, 1, 2]}, {"classes": ["a", "b"]},
    {"classes_dtype": "nonsense"}, {"n_features_in": 7}, {"n_features_in": -1}, {"n_features_in": "6"},
    {"n_features_in": 10**12}, {"settings__hidden": [3]}, {"settings__hidden": None},
    {"settings__hidden": [-1]}, {"settings__hidden": [10**12]}, {"settings__dropout": "x"},
    {"settings__class_weight": [[1, 2, 3]]}, {"settings__class_weight": [1]}, {"settings__unknown": 1},
    {"settings__device": "cuda:99"}, {"custom_network": True},
], ids=name)  # fmt: skip
def test_facts_that_do_not_fit(folder, changes):
    edit(folder, **changes)
    broken(folder, "^Expected `(folder|network|hidden|dropout|device)` ")


def test_any_missing_fact(folder):
    whole = json.loads((folder / "model.json").read_text())
    for key in whole:
        facts = {name: value for name, value in whole.items() if name != key}
        (folder / "model.json").write_text(json.dumps(facts))
        broken(folder)


# Nothing is executed


class Malice:
    def __init__(self, marker):
        self.marker = str(marker)

    def __reduce__(self):
        return os.mkdir, (self.marker,)


@pytest.mark.parametrize("writer", ["pickle", "torch"])
@pytest.mark.parametrize("target", ["tensors", "tensors with checksum", "json"])
def test_a_pickle_is_not_executed(folder, writer, target):
    marker = folder.parent / "executed"
    path = folder / "model.json" if target == "json" else tensors(folder)
    if writer == "pickle":
        path.write_bytes(pickle.dumps(Malice(marker)))
    else:
        torch.save(Malice(marker), path)
    if target == "tensors with checksum":
        edit_part(folder, sha256=hashlib.sha256(path.read_bytes()).hexdigest())
    broken(folder)
    assert not marker.exists()
    if writer == "pickle":
        pickle.loads(path.read_bytes())
    else:
        torch.load(io.BytesIO(path.read_bytes()), weights_only=False)
    assert marker.exists(), "the file was harmless: the test shows nothing"


def test_a_metric_text_is_not_executed(folder):
    marker = folder.parent / "executed"
    edit(folder, settings__metric=f"__import__('os').mkdir({str(marker)!r})")
    try:
        loaded = load(folder)
    except ValueError:
        pass
    else:
        with pytest.raises(ValueError, match="metric"):
            loaded.fit(X, Y)
    assert not marker.exists()
