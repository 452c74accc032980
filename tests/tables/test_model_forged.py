"""Forged model folders: their author knows about checksums, and still nothing in them is executed."""

import hashlib
import io
import json
import os
import pickle
import re
import shutil
import zipfile
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import skops.io

from evalign._files import FORMAT
from evalign.cli import main
from evalign.tables import TableModel, read

STORED = Path(__file__).parent / "fixtures" / "format-1"


@pytest.fixture(params=["lightgbm_rule", "network_rule", "../format-3/network_rule"])
def model(request, tmp_path):
    """A folder that tests may change."""
    return Folder(shutil.copytree(STORED / request.param, tmp_path / "model"))


class Folder:
    """A model folder, as an attacker who knows about checksums would change it."""

    def __init__(self, path):
        self.path = path

    def facts(self, name="model.json"):
        return json.loads((self.path / name).read_text())

    def edit(self, name="model.json", **facts):
        """Change facts in a JSON file."""
        (self.path / name).write_text(json.dumps({**self.facts(name), **facts}))

    def put(self, name, content):
        """Change a part and its checksum."""
        (self.path / name).write_bytes(content)
        self.sign(name)

    def sign(self, *names):
        sums = {name: hashlib.sha256((self.path / name).read_bytes()).hexdigest() for name in names}
        self.edit(files={**self.facts()["files"], **sums})

    @property
    def weights(self):
        (name,) = [
            name for name in self.facts()["files"] if not name.endswith((".json", "preparation.skops"))
        ]
        return name

    def put_weights(self, content):
        """Change the weights, all their checksums and the file name made of one."""
        old, inner = self.weights, self.facts("classifier/model.json")
        digest = hashlib.sha256(content).hexdigest()
        new = f"classifier/model-{digest[:16]}{Path(old).suffix}"
        (self.path / old).unlink()
        (self.path / new).write_bytes(content)
        if "tensors" in inner:
            inner |= {"tensors": Path(new).name, "sha256": digest}
        else:
            inner["parts"] = {key: {"file": Path(new).name, "sha256": digest} for key in inner["parts"]}
        (self.path / "classifier/model.json").write_text(json.dumps(inner))
        files = {name: one for name, one in self.facts()["files"].items() if name != old}
        self.edit(files={**files, new: digest})
        self.sign("classifier/model.json")

    def edit_inside(self, **facts):
        """Change facts in the JSON file of the classifier, and its checksum."""
        self.edit("classifier/model.json", **facts)
        self.sign("classifier/model.json")


class Bomb:
    """Unpickling it creates a file."""

    def __init__(self, canary):
        self.canary = canary

    def __reduce__(self):
        return os.system, (f"touch {self.canary}",)


def packed(thing):
    return skops.io.dumps(thing)


def pickled_weights(model, canary):
    model.put_weights(pickle.dumps(Bomb(canary)))


def pickled_preparation(model, canary):
    model.put("preparation.skops", pickle.dumps(Bomb(canary)))


def pickle_in_the_archive(model, canary):
    """A skops file is an archive that may contain a pickled array in the form of NumPy."""
    content = io.BytesIO()
    with zipfile.ZipFile(model.path / "preparation.skops") as old, zipfile.ZipFile(content, "w") as new:
        for name in old.namelist():
            array = name.endswith(".npy")
            if array:
                forged = io.BytesIO()
                np.save(forged, np.array([Bomb(canary)], dtype=object), allow_pickle=True)
            new.writestr(name, forged.getvalue() if array else old.read(name))
    model.put("preparation.skops", content.getvalue())


def bomb_in_the_archive(model, canary):
    """Small on disk, and far too large in memory."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("schema.json", b" " * (1 << 20))
    lie = content.getvalue().replace((1 << 20).to_bytes(4, "little"), (3 << 30).to_bytes(4, "little"))
    model.put("preparation.skops", lie)


def untrusted_type(model, canary):
    model.put("preparation.skops", packed({"schema": partial(os.system, f"touch {canary}")}))


def another_type(model, canary):
    model.put("preparation.skops", packed({"schema": 1}))


def changed_weights(model, canary):
    with (model.path / model.weights).open("ab") as file:
        file.write(b" ")


def changed_preparation(model, canary):
    with (model.path / "preparation.skops").open("ab") as file:
        file.write(b" ")


def changed_rule(model, canary):
    (model.path / "rule.json").write_text("{}")


def evil_metric(model, canary):
    model.edit(metric=f"__import__('os').system('touch {canary}')")


def evil_constraint(model, canary):
    model.edit(constraints=[f"__import__('os').system('touch {canary}') >= 0.5"])


def evil_metric_inside(model, canary):
    settings = model.facts("classifier/model.json")["settings"]
    model.edit_inside(settings={**settings, "metric": f"__import__('os').system('touch {canary}')"})


def escape(name):
    def forge(model, canary):
        (model.path.parent / "x").write_bytes(b"outside")
        digest = hashlib.sha256(b"outside").hexdigest()
        model.edit(files={**model.facts()["files"], name: digest})

    return forge


def escape_inside(name):
    def forge(model, canary):
        target = model.path / "classifier" / name
        shutil.copy(model.path / model.weights, target)
        inner = model.facts("classifier/model.json")
        if "tensors" in inner:
            model.edit_inside(tensors=name)
        else:
            model.edit_inside(parts={key: {**one, "file": name} for key, one in inner["parts"].items()})

    return forge


def link(name):
    def forge(model, canary):
        where = model.weights if name == "weights" else name
        outside = model.path.parent / "outside"
        shutil.move(model.path / where, outside)
        (model.path / where).symlink_to(outside)

    return forge


def unlisted_link(model, canary):
    """The list of files does not mention the weights, which are elsewhere."""
    weights = model.weights
    link("weights")(model, canary)
    model.edit(files={name: one for name, one in model.facts()["files"].items() if name != weights})


def delete(name):
    def forge(model, canary):
        (model.path / (model.weights if name == "weights" else name)).unlink()

    return forge


def write(name, content):
    def forge(model, canary):
        (model.path / name).write_bytes(content)

    return forge


def change(**facts):
    return lambda model, canary: model.edit(**facts)


def change_inside(**facts):
    return lambda model, canary: model.edit_inside(**facts)


def remove(name):
    def forge(model, canary):
        facts = {key: fact for key, fact in model.facts().items() if key != name}
        (model.path / "model.json").write_text(json.dumps(facts))

    return forge


def fewer_features(model, canary):
    """A preparation and a schema that fit each other, but not the classifier."""
    facts = model.facts()
    columns = [one for one in facts["schema"]["columns"] if one["name"] != "member"]
    model.edit(schema={**facts["schema"], "columns": columns})
    loaded = TableModel.load(STORED / "lightgbm_rule")
    schema = type(loaded.schema).from_json(model.facts()["schema"])
    preparation = type(loaded.preparation)(schema).fit(read(str(STORED / "data.csv")))
    model.put("preparation.skops", packed(preparation))


def broken_preparation(model, canary):
    """The right type and schema, but with parts that cannot work."""
    loaded = TableModel.load(STORED / "lightgbm_rule").preparation
    loaded.missing_ = [10**6]
    model.put("preparation.skops", packed(loaded))


DEEP = b'{"format": 1, "files": ' + b"[" * 100_000

FORGED = {
    "pickle as weights": (pickled_weights, "Expected `folder`"),
    "pickle as preparation": (pickled_preparation, "skops cannot read"),
    "pickle in the archive": (pickle_in_the_archive, "skops cannot read"),
    "bomb in the archive": (bomb_in_the_archive, "with parts below 1024 MB in memory"),
    "untrusted type": (untrusted_type, "with trusted types only"),
    "preparation of another type": (another_type, "with a preparation of its own columns, but got dict"),
    "changed weights": (changed_weights, "with another checksum"),
    "changed preparation": (changed_preparation, "preparation.skops with another checksum"),
    "changed rule": (changed_rule, "rule.json with another checksum"),
    "evil metric": (evil_metric, "Expected `metric`"),
    "evil constraint": (evil_constraint, "Expected `metric`"),
    "evil metric inside": (evil_metric_inside, "Expected `metric`"),
    "file above": (escape("../x"), "with its files inside, but got '../x'"),
    "file above a folder": (escape("classifier/../../x"), "with its files inside"),
    "absolute file": (escape("/etc/hostname"), "with its files inside"),
    "weights above": (escape_inside("../../x"), "with its files inside"),
    "weights of another name": (escape_inside("weights.bin"), "classifier/weights.bin beside them"),
    "linked weights": (link("weights"), "with its files inside"),
    "linked preparation": (link("preparation.skops"), "with its files inside, but got 'preparation.skops'"),
    "linked classifier": (link("classifier"), "with its files inside, but got the link classifier"),
    "linked model.json": (link("model.json"), "with its files inside, but got the link model.json"),
    "unlisted link": (unlisted_link, "beside them"),
    "lost weights": (delete("weights"), "with all its files"),
    "lost preparation": (delete("preparation.skops"), "with all its files"),
    "lost classifier": (delete("classifier/model.json"), "with all its files"),
    "lost model.json": (delete("model.json"), "without model.json"),
    "empty model.json": (write("model.json", b""), "with a readable model.json"),
    "cut model.json": (write("model.json", b'{"format": 1, "files": {'), "with a readable model.json"),
    "deep model.json": (write("model.json", DEEP), "with a readable model.json"),
    "binary model.json": (write("model.json", bytes(range(256))), "with a readable model.json"),
    "model.json of others": (write("model.json", b'{"format": 1}'), "to be the folder of a model"),
    "model.json with a list": (write("model.json", b"[]"), "to be the folder of a model"),
    "newer format": (change(format=FORMAT + 1), "Upgrade evalign."),
    "format of text": (change(format="1"), "with a format number"),
    "format of truth": (change(format=True), "with a format number"),
    "format below": (change(format=0), "with a format number"),
    "huge format": (change(format=10**4000), "Upgrade evalign."),
    "huge number": (write("model.json", b"1" * 5000), "with a readable model.json"),
    "no files": (change(files={}), "with a list of its files"),
    "files as a list": (change(files=["model.json"]), "with a list of its files"),
    "unknown kind": (change(kind="Popen"), "of the kind AutoClassifier or MetricBooster or"),
    "kind as a list": (change(kind=["MetricBooster"]), "with a complete model.json"),
    "another kind": (change(kind="MetricDecision"), "Expected `folder`"),
    "labels as text": (change(labels="ab"), "with different texts as labels"),
    "labels as numbers": (change(labels=[0, 1]), "with different texts as labels"),
    "one label twice": (change(labels=["left", "left"]), "with different texts as labels"),
    "three labels": (change(labels=["a", "b", "c"]), "with a classifier of 3 classes, but got [0, 1]"),
    "one label": (change(labels=["a"]), "with different texts as labels"),
    "no metric": (remove("metric"), "None as metric"),
    "metric as a number": (change(metric=3), "3 as metric"),
    "no target": (remove("target"), "None as target"),
    "no constraints": (remove("constraints"), "None as constraints"),
    "schema as a list": (change(schema=[]), "Expected `schema`"),
    "other columns": (change(schema={"columns": [], "warnings": []}), "with a preparation of its own"),
    "classifier of other classes": (change_inside(classes=[1, 2]), "Expected `"),
    "classifier of three classes": (change_inside(classes=[0, 1, 2]), "Expected `"),
    "newer classifier": (change_inside(format=99), "Upgrade evalign."),
    "other features": (change_inside(n_features_in=3), "Expected `"),
    "huge features": (change_inside(n_features_in=10**30), "Expected `"),
    "no rule": (change_inside(rule="[" * 10_000), "Expected `text` to be a decision rule"),
    "fewer features": (fewer_features, "with parts that fit together"),
    "broken preparation": (broken_preparation, "with parts that fit together"),
}  # fmt: skip


def rejection(model, capsys):
    """Return the one line that says why a folder is not loaded."""
    assert main(["predict", str(model.path), str(STORED / "data.csv")]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1
    assert err.startswith("evalign: Expected `")
    assert len(err) < 700
    return err


def test_trees_with_cycles_are_rejected(tmp_path, capsys):
    """LightGBM would never return; the other checks are in the tests of the booster."""
    model = Folder(shutil.copytree(STORED / "lightgbm_rule", tmp_path / "model"))
    text = (model.path / model.weights).read_text()
    model.put_weights(re.sub("left_child=2 ", "left_child=0 ", text, count=1).encode())
    assert "a branch that leads elsewhere" in rejection(model, capsys)


@pytest.mark.parametrize(
    "settings",
    [{"hidden": [10**12]}, {"hidden": [10**30]}, {"hidden": [9] * 300}, {"bags": 10**9}, {"bags": 1e400}],
)
def test_networks_of_huge_size_cost_no_memory(tmp_path, capsys, settings):
    model = Folder(shutil.copytree(STORED / "network_rule", tmp_path / "model"))
    model.edit_inside(settings={**model.facts("classifier/model.json")["settings"], **settings})
    rejection(model, capsys)


@pytest.mark.parametrize("attack", FORGED)
def test_forged_folders_are_rejected(model, attack, tmp_path, capsys):
    forge, reason = FORGED[attack]
    canary = tmp_path / "canary"
    forge(model, canary)
    assert reason in rejection(model, capsys)
    assert not canary.exists()


def test_a_forgery_that_changes_nothing_is_loaded(model):
    """Otherwise the tests above would only show that forgers make mistakes."""
    model.put_weights((model.path / model.weights).read_bytes())
    model.edit_inside()
    model.put("preparation.skops", (model.path / "preparation.skops").read_bytes())
    model.edit()
    assert TableModel.load(model.path).labels == ("stayed", "left")


def test_the_bomb_works(tmp_path):
    """Otherwise the tests above would show nothing."""
    pickle.loads(pickle.dumps(Bomb(tmp_path / "canary")))
    assert (tmp_path / "canary").exists()
