"""Model folders made to crash, to fill the memory or to hang: refused before anything large is read."""

import hashlib
import io
import json
import os
import shutil
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest
import skops.io
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sklearn.datasets import make_classification
from sklearn.ensemble import BaggingClassifier
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from evalign import _files, _skops
from evalign.estimators import MetricBooster, MetricDecision
from evalign.estimators._untrusted import check_lightgbm_text
from evalign.tables import TableModel, read_private_key
from evalign.tables._checksums import CHECKSUMS, write_checksums

STORED = Path(__file__).parent / "fixtures" / "format-3"
X, Y = make_classification(120, 6, random_state=0)
LITTLE = 50 << 20


@pytest.fixture(scope="module")
def saved_forest(tmp_path_factory):
    forest = BaggingClassifier(DecisionTreeClassifier(max_depth=3), 3, random_state=0)  # kept with skops
    folder = tmp_path_factory.mktemp("forest")
    MetricDecision(forest, "f1", cv=2, random_state=0).fit(X, Y).save(folder)
    return folder


@pytest.fixture
def forest(saved_forest, tmp_path):
    """The folder of a forest that tests may change."""
    return shutil.copytree(saved_forest, tmp_path / "forest")


def replace_part(folder, content):
    """Replace the only part of a bundle, as somebody does who knows about checksums."""
    facts = json.loads((folder / "model.json").read_text())
    ((key, part),) = facts["parts"].items()
    digest = hashlib.sha256(content).hexdigest()
    file = f"model-{digest[:16]}{Path(part['file']).suffix}"
    (folder / part["file"]).unlink()
    (folder / file).write_bytes(content)
    facts["parts"][key] = {"file": file, "sha256": digest}
    (folder / "model.json").write_text(json.dumps(facts))


def read_archive(folder):
    """The schema and the other files of the only archive in a folder."""
    with zipfile.ZipFile(next(folder.glob("*.skops"))) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    return json.loads(files.pop("schema.json")), files


def write_archive(schema, files):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, one in files.items():
            archive.writestr(name, one)
        archive.writestr("schema.json", json.dumps(schema))
    return content.getvalue()


def find_nodes(part, loader):
    """All descriptions with a loader in a schema."""
    if isinstance(part, dict):
        found = [part] if part.get("__loader__") == loader else []
        return found + [node for one in part.values() for node in find_nodes(one, loader)]
    return [node for one in part for node in find_nodes(one, loader)] if isinstance(part, list) else []


def load_cheaply(kind, folder, message):
    """Check that a folder is refused with a message, and without filling the memory."""
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=message):
            kind.load(folder)
        assert tracemalloc.get_traced_memory()[1] < LITTLE
    finally:
        tracemalloc.stop()


def test_an_archive_that_changes_nothing_is_loaded(forest):
    """Otherwise the tests below would only show that forgers make mistakes."""
    model = MetricDecision.load(forest)
    replace_part(forest, write_archive(*read_archive(forest)))
    np.testing.assert_array_equal(MetricDecision.load(forest).predict(X), model.predict(X))


def test_a_support_vector_machine_in_place_of_a_forest_is_refused(forest):
    """Its arrays are used without a check of their shapes: this one would read far outside of them."""
    machine = SVC().fit(X, Y)
    machine._dual_coef_ = machine.dual_coef_ = np.zeros((1, 1))
    replace_part(forest, skops.io.dumps(machine))
    load_cheaply(MetricDecision, forest, r"trusted types only, but got sklearn\.svm\._classes\.SVC")


def test_what_would_not_be_loaded_is_not_saved(tmp_path):
    model = MetricDecision(SVC(), "f1", cv=2, random_state=0).fit(X, Y)
    with pytest.raises(ValueError, match=r"to be saved, but got sklearn\.svm\._classes\.SVC"):
        model.save(tmp_path)


def test_a_type_behind_another_name_is_refused(forest):
    """skops builds what `__loader__` says, whatever the name of the class."""
    schema, files = read_archive(forest)
    find_nodes(schema, "DictNode")[0]["__loader__"] = "SparseMatrixNode"
    replace_part(forest, write_archive(schema, files))
    load_cheaply(MetricDecision, forest, "trusted types only, but got 'SparseMatrixNode'")


def test_a_tree_of_other_outputs_is_refused(forest):
    schema, files = read_archive(forest)
    arguments = find_nodes(schema, "TreeNode")[0]["__reduce__"]["args"]["content"]
    arguments[2] |= {"content": "100000000", "__id__": 1}
    replace_part(forest, write_archive(schema, files))
    load_cheaply(MetricDecision, forest, "with trees of as many outputs as they say, but got 100000000")


def test_two_parts_of_one_id_are_refused(forest):
    """skops builds only the first of them, so that a check of the second would check nothing."""
    schema, files = read_archive(forest)
    outputs = find_nodes(schema, "TreeNode")[0]["__reduce__"]["args"]["content"][2]
    other = next(one for one in find_nodes(schema, "JsonNode") if one["content"] != outputs["content"])
    outputs["__id__"] = other["__id__"]
    replace_part(forest, write_archive(schema, files))
    load_cheaply(MetricDecision, forest, "with trees of as many outputs as they say")


def test_an_array_of_zeros_is_refused_before_it_is_unpacked(forest, monkeypatch):
    monkeypatch.setattr(_skops, "MAX_CONTENT", 10 << 20)
    schema, files = read_archive(forest)
    replace_part(forest, write_archive(schema, {**files, "zeros.npy": bytes(60 << 20)}))
    load_cheaply(MetricDecision, forest, "with parts below 10 MB in memory")


def test_an_array_that_is_named_many_times_is_refused(forest, monkeypatch):
    monkeypatch.setattr(_skops, "MAX_CONTENT", 10 << 20)
    schema, files = read_archive(forest)
    arrays = [
        {**node, "file": "zeros.npy", "__id__": k} for k, node in enumerate(find_nodes(schema, "NdArrayNode"))
    ]
    schema["content"]["content"]["extra"] = {
        "__class__": "list",
        "__module__": "builtins",
        "__loader__": "ListNode",
        "content": arrays,
    }
    replace_part(forest, write_archive(schema, {**files, "zeros.npy": bytes(2 << 20)}))
    load_cheaply(MetricDecision, forest, "with parts below 10 MB in memory")


def test_a_huge_description_is_refused(forest, monkeypatch):
    monkeypatch.setattr(_skops, "MAX_SCHEMA", 1 << 20)
    schema, files = read_archive(forest)
    replace_part(forest, write_archive({**schema, "extra": [[]] * 500_000}, files))
    load_cheaply(MetricDecision, forest, "in memory, but got a larger one")


def test_a_huge_number_of_classes_costs_no_memory(tmp_path):
    """LightGBM would make room for all of them before it sees that there are no trees."""
    text = next((STORED / "lightgbm_rule" / "classifier").glob("*.txt")).read_bytes()
    head = text[: text.index(b"\nTree=0\n")].split(b"\n")
    changes = {b"num_class": b"900000000", b"num_tree_per_iteration": b"900000000", b"tree_sizes": b""}
    lines = [line.partition(b"=") for line in head]
    head = [name + equals + changes.get(name, value) for name, equals, value in lines]
    with pytest.raises(ValueError, match="its header"):
        check_lightgbm_text(b"\n".join(head) + b"\nend of trees\n")


def test_a_number_of_many_digits_costs_no_memory():
    """NumPy makes room for the longest text in every place of an array."""
    text = next((STORED / "lightgbm_rule" / "classifier").glob("*.txt")).read_bytes()
    start = text.index(b"leaf_value=") + len(b"leaf_value=")
    size = int(text[text.index(b"tree_sizes=") + len(b"tree_sizes=") :].split()[0])
    digits = b"1" * 100_000 + b" 1" * 100_000
    forged = text[:start] + digits + text[start:]
    forged = forged.replace(b"tree_sizes=%d" % size, b"tree_sizes=%d" % (size + len(digits)))
    tracemalloc.start()
    with pytest.raises(ValueError, match="too many digits"):
        check_lightgbm_text(forged)
    assert tracemalloc.get_traced_memory()[1] < LITTLE
    tracemalloc.stop()


def test_huge_labels_cost_no_memory(forest):
    facts = json.loads((forest / "model.json").read_text())
    (forest / "model.json").write_text(json.dumps({**facts, "classes_dtype": "<U500000000"}))
    load_cheaply(MetricDecision, forest, "with classes below 16 MB")


@pytest.fixture
def table_model(tmp_path):
    """The folder of a table model as it is written now."""
    model = TableModel.load(STORED / "lightgbm_rule")
    model.save(tmp_path / "model", {"report.json": "{}", "report.html": "<p>", "README.md": "#"})
    return tmp_path / "model"


def make_huge(path):
    """A file of 5 GB that takes no room on the disk."""
    with path.open("wb") as file:
        file.truncate(5 << 30)


@pytest.mark.parametrize("name", ["model.json", "classifier/model.json", CHECKSUMS, "preparation.json"])
@pytest.mark.parametrize("make", [os.mkfifo, make_huge])
def test_pipes_and_huge_files_are_not_read(table_model, name, make):
    (table_model / name).unlink()
    make(table_model / name)
    load_cheaply(TableModel, table_model, "Expected `(folder|model)` with")


@pytest.mark.parametrize(
    "name", ["model.json", "report.json", "rule.json", "preparation.json", "classifier/model.json"]
)
def test_a_changed_byte_is_refused(table_model, name):
    content = bytearray((table_model / name).read_bytes())
    content[-1] ^= 1
    (table_model / name).write_bytes(content)
    with pytest.raises(ValueError, match=r"Expected `model` with"):
        TableModel.load(table_model)


def test_swapped_labels_are_refused(table_model):
    """Every prediction would be wrong."""
    text = (table_model / "model.json").read_text()
    swapped = text.replace('"stayed"', '"x"').replace('"left"', '"stayed"').replace('"x"', '"left"')
    assert swapped != text
    (table_model / "model.json").write_text(swapped)
    with pytest.raises(ValueError, match=r"model\.json with another checksum"):
        TableModel.load(table_model)


@pytest.mark.parametrize("name", [CHECKSUMS, "model.json", "report.json"])
def test_a_lost_file_is_refused(table_model, name):
    (table_model / name).unlink()
    with pytest.raises(ValueError, match=f"without {name}"):
        TableModel.load(table_model)


def test_a_file_without_a_checksum_is_refused(table_model):
    lines = (table_model / CHECKSUMS).read_text().splitlines(keepends=True)
    (table_model / CHECKSUMS).write_text("".join(line for line in lines if "report.json" not in line))
    with pytest.raises(ValueError, match=r"report\.json beside them"):
        TableModel.load(table_model)


def test_the_checksums_are_those_of_sha256sum(table_model):
    sums = dict(reversed(line.split("  ")) for line in (table_model / CHECKSUMS).read_text().splitlines())
    for name, digest in sums.items():
        assert hashlib.sha256((table_model / name).read_bytes()).hexdigest() == digest
    assert {"model.json", "report.json", "rule.json", "preparation.json", "classifier/model.json"} < set(sums)
    assert not {"report.html", "README.md", CHECKSUMS} & set(sums)  # `evalign report` may write a page again


def test_a_model_too_large_to_be_loaded_is_not_saved(tmp_path, monkeypatch):
    monkeypatch.setattr(_files, "MAX_JSON", 1000)
    model = MetricBooster(n_bags=1, random_state=0).fit(X, Y)
    with pytest.raises(ValueError, match="to be saved below"):
        model.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    """A key pair of the owner (key, key.pub) and one of a stranger (other, other.pub), as PEM files."""
    folder = tmp_path_factory.mktemp("keys")
    for name in ("key", "other"):
        private = Ed25519PrivateKey.generate()
        kinds = serialization.PrivateFormat.PKCS8, serialization.PublicFormat.SubjectPublicKeyInfo
        pem, none = serialization.Encoding.PEM, serialization.NoEncryption()
        (folder / name).write_bytes(private.private_bytes(pem, kinds[0], none))
        (folder / f"{name}.pub").write_bytes(private.public_key().public_bytes(pem, kinds[1]))
    return folder


@pytest.fixture
def signed(table_model, keys, tmp_path):
    TableModel.load(table_model).save(tmp_path / "signed", key=read_private_key(keys / "key"))
    return tmp_path / "signed"


def test_a_signed_model_is_loaded(signed, keys):
    assert TableModel.load(signed, verify=keys / "key.pub").labels == ("stayed", "left")
    assert TableModel.load(signed).labels == ("stayed", "left")


def test_who_knows_about_checksums_cannot_sign(signed, keys):
    """Checksums are made anew, so that only the signature shows that two labels were swapped."""
    facts = json.loads((signed / "model.json").read_text())
    (signed / "model.json").write_text(json.dumps({**facts, "labels": facts["labels"][::-1]}))
    names = [line.split("  ")[1] for line in (signed / CHECKSUMS).read_text().splitlines()]
    write_checksums(signed, names)
    assert TableModel.load(signed).labels == ("left", "stayed")
    with pytest.raises(ValueError, match=r"signed by the owner of .*key\.pub"):
        TableModel.load(signed, verify=keys / "key.pub")


def test_a_model_without_the_right_signature_is_refused(signed, table_model, keys):
    with pytest.raises(ValueError, match=r"signed by the owner of .*other\.pub"):
        TableModel.load(signed, verify=keys / "other.pub")
    with pytest.raises(ValueError, match="with a signature, but got .* without one"):
        TableModel.load(table_model, verify=keys / "key.pub")


def test_wrong_keys_are_refused(signed, keys, tmp_path):
    (tmp_path / "text").write_text("no key")
    for path in (keys / "key.pub", tmp_path / "text", tmp_path / "nothing", tmp_path):
        with pytest.raises(ValueError, match="Expected `sign` to be a "):
            read_private_key(path)
    for path in (keys / "key", tmp_path / "text", tmp_path / "nothing"):
        with pytest.raises(ValueError, match="Expected `verify` to be a "):
            TableModel.load(signed, verify=path)
