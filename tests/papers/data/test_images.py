"""CIFAR-10 and Fashion-MNIST in the forms in which they are published."""

import gzip
import io
import pickle
import struct
import tarfile

import numpy as np
import pytest

from evalign.papers.data import _images, load

ROWS = 4
BATCHES = [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]
IDX = [
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
]
rng = np.random.default_rng(0)
CIFAR = {name: rng.integers(0, 256, (ROWS, 3, 32, 32)).astype(np.uint8) for name in BATCHES}
CLASSES = {name: [i, 9, 6, 0] for i, name in enumerate(BATCHES)}


def pickled(name, classes=None):
    return pickle.dumps({b"data": CIFAR[name].reshape(ROWS, -1), b"labels": classes or CLASSES[name]}, 3)


@pytest.fixture
def cifar(data_home, monkeypatch):
    monkeypatch.setattr(_images, "BATCH_ROWS", ROWS)
    (data_home / "cifar10").mkdir()
    return data_home / "cifar10"


def put_folder(cifar, **changes):
    (cifar / "cifar-10-batches-py").mkdir()
    for name in BATCHES:
        (cifar / "cifar-10-batches-py" / name).write_bytes(changes.get(name, pickled(name)))
    (cifar / "cifar-10-batches-py" / "batches.meta").write_bytes(b"never read")


def archive_of(names=BATCHES, folder="cifar-10-batches-py/", **changes):
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w:gz") as archive:
        for name in ["readme.html", *reversed(names)]:  # in any order
            content = changes.get(name, pickled(name) if name in BATCHES else b"never read")
            member = tarfile.TarInfo(folder + name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return raw.getvalue()


def put_npz(cifar, **changes):
    arrays = {
        "x_train": CIFAR["data_batch_1"].transpose(0, 2, 3, 1),
        "y_train": np.array(CLASSES["data_batch_1"]),
        "x_test": CIFAR["test_batch"].transpose(0, 2, 3, 1),
        "y_test": np.array(CLASSES["test_batch"]),
        "class_names": np.array(_images.CIFAR10),
    }
    arrays = {key: value for key, value in {**arrays, **changes}.items() if value is not None}
    np.savez(cifar / "cifar10_subset_10k_2k.npz", **arrays)


def check_cifar(data):
    images = np.concatenate([CIFAR[name] for name in BATCHES])
    assert data.X.shape == (24, 32, 32, 3)
    assert data.X.dtype == np.uint8
    assert data.X.flags.c_contiguous
    np.testing.assert_array_equal(data.X[:, 5, 7, 2], images[:, 2, 5, 7])
    assert data.y.tolist() == [label for name in BATCHES for label in CLASSES[name]]
    assert data.official_test.tolist() == [20, 21, 22, 23]
    assert data.class_names[6] == "frog"
    assert data.feature_names == ("red", "green", "blue")


def test_cifar10_is_read_from_its_folder(cifar):
    put_folder(cifar)
    check_cifar(load("cifar10"))


def test_cifar10_is_read_from_its_archive(cifar):
    (cifar / "cifar-10-python.tar.gz").write_bytes(archive_of())
    check_cifar(load("cifar10"))
    assert [item.name for item in cifar.iterdir()] == ["cifar-10-python.tar.gz"]


def test_cifar10_is_read_from_an_npz_file_unless_the_official_files_are_there(cifar):
    put_npz(cifar)
    data = load("cifar10")
    assert data.X.shape == (8, 32, 32, 3)
    np.testing.assert_array_equal(data.X[4:, 5, 7, 2], CIFAR["test_batch"][:, 2, 5, 7])
    assert data.official_test.tolist() == [4, 5, 6, 7]
    put_folder(cifar)
    check_cifar(load("cifar10"))


@pytest.mark.parametrize(
    ("task", "positive"),
    [("transportation", {0, 1, 8, 9}), ("frog", {6}), ("airplane", {0})],
)
def test_binary_tasks_of_cifar10_are_some_classes_against_the_rest(cifar, task, positive):
    put_folder(cifar)
    data, whole = load(f"cifar10_{task}"), load("cifar10")
    assert data.y.tolist() == [int(label in positive) for label in whole.y]
    assert data.class_names == ("rest", task)
    assert data.official_test.tolist() == whole.official_test.tolist()
    np.testing.assert_array_equal(data.X, whole.X)


def test_a_folder_without_a_batch_is_rejected(cifar):
    put_folder(cifar)
    (cifar / "cifar-10-batches-py" / "data_batch_4").unlink()
    with pytest.raises(ValueError, match="cifar-10-batches-py with data_batch_1, .* but got no data_batch_4"):
        load("cifar10")


class Evil:
    """Fails the test when unpickled."""

    def __reduce__(self):
        return pytest.fail, ("executed",)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (pickle.dumps(Evil(), 2), "to be a batch of CIFAR-10, but got a call of .*not executed"),
        (pickled("test_batch")[:-500], "to be a batch of CIFAR-10"),
        (pickled("test_batch", [0, 1, 2, 10]), "with labels from 0 to 9, but got 0 to 10"),
        (pickled("test_batch", [0, 1, 2, -1]), "with labels from 0 to 9, but got -1 to 2"),
        (pickle.dumps({b"data": np.zeros((2, 3072), np.uint8), b"labels": [0, 1]}, 2), "to have 4 images"),
    ],
)  # fmt: skip
def test_invalid_batches_are_rejected_in_folders_and_archives(cifar, raw, message):
    put_folder(cifar, test_batch=raw)
    with pytest.raises(ValueError, match=f"Expected the file .*test_batch {message}"):
        load("cifar10")
    (cifar / "cifar-10-batches-py").rename(cifar / "elsewhere")
    (cifar / "cifar-10-python.tar.gz").write_bytes(archive_of(test_batch=raw))
    with pytest.raises(ValueError, match=f"Expected the file .*test_batch {message}"):
        load("cifar10")


def test_a_batch_that_is_far_too_large_is_not_read(cifar, monkeypatch):
    monkeypatch.setattr(_images, "LARGEST_BATCH", 1000)
    (cifar / "cifar-10-python.tar.gz").write_bytes(archive_of())
    with pytest.raises(ValueError, match="but got no data_batch_1"):
        load("cifar10")
    put_folder(cifar)
    with pytest.raises(ValueError, match="but got a far larger file"):
        load("cifar10")


@pytest.mark.parametrize("share", [0, 0.01, 0.5, 0.99])
def test_truncated_archives_are_rejected(cifar, share):
    whole = archive_of()
    (cifar / "cifar-10-python.tar.gz").write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(ValueError, match=r"Expected the file .*cifar-10-python.tar.gz"):
        load("cifar10")


def test_flipped_bits_in_an_archive_are_detected(cifar):
    """Even in pixels, which may have any value."""
    raw = io.BytesIO()
    with gzip.GzipFile(fileobj=raw, mode="wb", compresslevel=0) as file:
        file.write(gzip.decompress(archive_of()))
    broken = bytearray(raw.getvalue())
    broken[broken.index(CIFAR["data_batch_3"].tobytes()[:20]) + 9] ^= 1
    (cifar / "cifar-10-python.tar.gz").write_bytes(broken)
    with pytest.raises(ValueError, match=r"cifar-10-python.tar.gz to be whole, but got .*CRC"):
        load("cifar10")


@pytest.mark.parametrize(
    "raw",
    [
        b"no archive",
        gzip.compress(b"no tar" * 200, mtime=0),
        archive_of(BATCHES[:-1]),
        archive_of(folder="other/"),
    ],
)
def test_other_archives_are_rejected(cifar, raw):
    (cifar / "cifar-10-python.tar.gz").write_bytes(raw)
    with pytest.raises(ValueError, match=r"Expected the file .*cifar-10-python.tar.gz"):
        load("cifar10")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x_test": None}, "with the arrays .* but got no x_test"),
        ({"x_test": np.zeros((4, 3, 32, 32), np.uint8)}, "with x_test uint8"),
        ({"x_test": np.zeros((4, 32, 32, 3))}, "with x_test uint8 .* but got float64"),
        ({"y_test": np.zeros(3, int)}, "with x_test uint8"),
        ({"y_test": np.zeros(4)}, "whole numbers as labels, but got float64"),
        ({"y_test": np.full(4, 10)}, "labels from 0 to 9"),
        ({"y_test": np.zeros(0, int)}, "with rows, but got none"),
        ({"class_names": np.array(["a", "b"])}, "with the class names of CIFAR-10"),
        ({"class_names": np.array([{}])}, "to be an .npz file of plain arrays"),
    ],
)
def test_invalid_npz_files_are_rejected(cifar, changes, message):
    put_npz(cifar, **changes)
    with pytest.raises(ValueError, match=f"Expected the file .*cifar10_subset_10k_2k.npz .*{message}"):
        load("cifar10")


@pytest.mark.parametrize("kind", ["empty", "text", "array", "cut"])
def test_files_in_another_format_than_npz_are_rejected(cifar, kind):
    put_npz(cifar)
    file = cifar / "cifar10_subset_10k_2k.npz"
    array = io.BytesIO()
    np.save(array, np.zeros(3))
    raws = {"empty": b"", "text": b"hello", "array": array.getvalue(), "cut": file.read_bytes()[:-99]}
    file.write_bytes(raws[kind])
    with pytest.raises(ValueError, match=r"Expected the file .*cifar10_subset_10k_2k.npz"):
        load("cifar10")


def idx(array):
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


@pytest.fixture
def fashion(data_home, monkeypatch):
    """A function that writes the four files; `changes` replaces files by their number."""
    images = np.arange(5 * 784, dtype=np.uint32).astype(np.uint8).reshape(5, 28, 28)
    whole = [images[:3], np.array([0, 9, 3], np.uint8), images[3:], np.array([0, 1], np.uint8)]
    for name, array in zip(IDX, whole, strict=True):
        monkeypatch.setitem(_images.ROWS, name, len(array))

    def put(changes=None, suffix=".gz"):
        (data_home / "fashion_mnist").mkdir(exist_ok=True)
        for number, (name, array) in enumerate(zip(IDX, whole, strict=True)):
            raw = {number: idx(array), **(changes or {})}[number]
            file = data_home / "fashion_mnist" / f"{name}{suffix}"
            file.write_bytes(gzip.compress(raw) if suffix else raw)
        return images

    return put


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_fashion_mnist_is_read_from_its_idx_files(fashion, suffix):
    images = fashion(suffix=suffix)
    data = load("fashion_mnist")
    np.testing.assert_array_equal(data.X, images[..., None])
    assert data.y.tolist() == [0, 9, 3, 0, 1]
    assert data.official_test.tolist() == [3, 4]
    assert data.class_names[9] == "Ankle boot"
    assert load("fashion_mnist_tshirt").y.tolist() == [1, 0, 0, 1, 0]


@pytest.mark.parametrize(
    ("number", "raw", "message"),
    [
        (0, b"", "to be an idx file of bytes in 3 dimensions, but got the first bytes missing"),
        (0, b"\x00\x00\x08", "to be an idx file of bytes in 3 dimensions"),
        (0, idx(np.zeros(3, np.uint8)), "in 3 dimensions, but got the first bytes 00 00 08 01"),
        (
            0,
            idx(np.zeros((3, 28, 28), np.uint8))[:-1],
            "with the 2,352 values .* announces, but got 2,351",
        ),
        (0, idx(np.zeros((3, 28, 28), np.uint8)) + b"0", "with the 2,352 values .* but got 2,353"),
        (0, bytes([0, 0, 8, 3]) + b"\xff" * 12, "values that its header announces, but got 0"),
        (0, idx(np.zeros((2, 28, 28), np.uint8)), "to have 3 rows, but got 2"),
        (0, idx(np.zeros((3, 28, 27), np.uint8)), "with 3 images of 28x28"),
        (1, idx(np.array([0, 1, 10], np.uint8)), "with labels from 0 to 9, but got 0 to 10"),
        (3, idx(np.array([1], np.uint8)), "to have 2 rows, but got 1"),
    ],
)
def test_invalid_idx_files_are_rejected(fashion, number, raw, message):
    fashion({number: raw})
    with pytest.raises(ValueError, match=f"Expected the file .*{IDX[number]}.gz .*{message}"):
        load("fashion_mnist")
