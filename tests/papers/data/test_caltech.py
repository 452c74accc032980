"""Caltech-256: features of images, and images in folders, zip files and tar archives."""

import io
import sys
import tarfile
import zipfile

import numpy as np
import pytest

from evalign.papers.data import _caltech, load

Image = pytest.importorskip("PIL.Image")

COLOURS = {
    "012.binoculars/012_0001.jpg": (250, 10, 10),
    "012.binoculars/012_0002.JPG": (10, 250, 10),
    "003.backpack/003_0001.jpg": (10, 10, 250),
}


def jpeg(colour, shape=(90, 50), kind="JPEG", mode="RGB"):
    raw = io.BytesIO()
    Image.new("RGB", shape, colour).convert(mode).save(raw, kind)
    return raw.getvalue()


def files(**changes):
    stray = {
        "003.backpack/notes.txt": b"stray",
        "012.binoculars/more/012_0009.jpg": b"stray",
        "a/b.jpg": b"stray",
    }
    return {**stray, **{path: jpeg(colour) for path, colour in COLOURS.items()}, **changes}


def put(data_home, form, content):
    (data_home / "caltech256").mkdir(exist_ok=True)
    if form == "folder":
        for path, raw in content.items():
            file = data_home / "caltech256" / "256_ObjectCategories" / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(raw)
    elif form == "zip":
        with zipfile.ZipFile(data_home / "caltech256" / "caltech256_10class_128px.zip", "w") as archive:
            for path, raw in content.items():
                archive.writestr(path, raw)
    else:
        with tarfile.open(data_home / "caltech256" / "256_ObjectCategories.tar", "w") as archive:
            for path, raw in content.items():
                member = tarfile.TarInfo(f"256_ObjectCategories/{path}")
                member.size = len(raw)
                archive.addfile(member, io.BytesIO(raw))


FORMS = ["folder", "zip", "tar"]


@pytest.mark.parametrize("form", FORMS)
def test_images_are_read_from_class_folders(data_home, form):
    put(data_home, form, files())
    data = load("caltech256_images", size=8)
    assert data.X.shape == (3, 8, 8, 3)
    assert data.X.dtype == np.uint8
    assert data.class_names == ("003.backpack", "012.binoculars")
    assert data.y.tolist() == [0, 1, 1]
    np.testing.assert_allclose(
        data.X[:, 4, 4], [(10, 10, 250), (250, 10, 10), (10, 250, 10)], atol=4
    )  # JPEG is not exact
    assert load("caltech256_images").X.shape == (3, 64, 64, 3)


def test_grey_images_get_three_channels(data_home):
    put(data_home, "zip", {"003.backpack/1.jpg": jpeg((80, 80, 80), mode="L")})
    np.testing.assert_allclose(load("caltech256_images").X, 80, atol=2)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "to be a JPEG image, but got another file"),
        (jpeg((1, 2, 3), kind="PNG"), "to be a JPEG image, but got another file"),
        (jpeg((1, 2, 3), (400, 300))[:-200], "to be a whole JPEG image, but got a broken one"),
    ],
)
def test_errors_name_the_broken_image(data_home, form, raw, message):
    put(data_home, form, files(**{"012.binoculars/012_0003.jpg": raw}))
    with pytest.raises(ValueError, match=f"Expected the file .*012_0003.jpg {message}"):
        load("caltech256_images")


@pytest.mark.parametrize("form", FORMS)
def test_archives_without_class_folders_are_rejected(data_home, form):
    put(data_home, form, {"a/b.jpg": jpeg((1, 2, 3)), "003.backpack/c.png": b"png"})
    with pytest.raises(ValueError, match=r"with folders such as 001.ak47 of .jpg images, but got none"):
        load("caltech256_images")


@pytest.mark.parametrize("form", ["zip", "tar"])
@pytest.mark.parametrize("share", [0, 0.3, 0.6])
def test_truncated_archives_are_rejected(data_home, form, share):
    put(data_home, form, {f"003.backpack/{i}.jpg": jpeg((i, i, i)) for i in range(9)})
    file = next((data_home / "caltech256").iterdir())
    file.write_bytes(file.read_bytes()[: int(share * file.stat().st_size)])
    with pytest.raises(ValueError, match=f"Expected the file .*{file.name}"):
        load("caltech256_images")


@pytest.mark.parametrize("form", ["zip", "tar"])
def test_images_that_are_far_too_large_are_not_decoded(data_home, form, monkeypatch):
    monkeypatch.setattr(_caltech, "LARGEST_IMAGE", 100)
    put(data_home, form, files())
    with pytest.raises(ValueError, match="to have at most 100 bytes"):
        load("caltech256_images")


def test_a_zip_file_with_flipped_bits_is_rejected(data_home):
    put(data_home, "zip", files())
    file = data_home / "caltech256" / "caltech256_10class_128px.zip"
    file.write_bytes(file.read_bytes().replace(jpeg((10, 250, 10))[-300:], b"?" * 300))
    with pytest.raises(ValueError, match=r"caltech256_10class_128px.zip to be whole, but got .*CRC"):
        load("caltech256_images")


def test_an_encrypted_zip_file_is_rejected(data_home):
    put(data_home, "zip", files())
    file = data_home / "caltech256" / "caltech256_10class_128px.zip"
    raw = bytearray(file.read_bytes())
    at = raw.find(b"PK\x01\x02")
    while at >= 0:
        raw[at + 8] |= 1  # the flag of each entry in the directory
        at = raw.find(b"PK\x01\x02", at + 1)
    file.write_bytes(raw)
    with pytest.raises(ValueError, match=r"128px.zip to be a plain zip, but got .*encrypted"):
        load("caltech256_images")


def test_the_error_without_pillow_explains_what_to_install(data_home, monkeypatch):
    put(data_home, "zip", files())
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(ImportError, match=r"needs Pillow: pip install 'evalign\[data\]'"):
        load("caltech256_images")


def put_features(data_home, **changes):
    (data_home / "caltech256").mkdir(exist_ok=True)
    arrays = {
        "x": np.arange(12, dtype=np.float16).reshape(4, 3),
        "y": np.array([1, 0, 1, 0]),
        "class_names": np.array(["001.ak47", "002.american-flag"]),
    }
    arrays = {key: value for key, value in {**arrays, **changes}.items() if value is not None}
    np.savez(data_home / "caltech256" / "caltech256_clip_vitb32.npz", **arrays)


def test_features_are_read(data_home):
    put_features(data_home)
    data = load("caltech256")
    assert data.X.dtype == np.float32
    assert data.X[1].tolist() == [3, 4, 5]
    assert data.y.tolist() == [1, 0, 1, 0]
    assert data.official_test is None
    assert data.class_names == ("001.ak47", "002.american-flag")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x": np.zeros((3, 2))}, "with x of 4 rows"),
        ({"x": np.zeros(4)}, "with x of 4 rows"),
        ({"x": np.zeros((4, 0))}, "with x of 4 rows"),
        ({"x": np.array([["a"]] * 4)}, "with x of 4 rows of numbers"),
        ({"x": np.full((4, 2), np.nan)}, "with finite numbers only"),
        ({"x": None}, "but got no x"),
        ({"y": np.array([0, 1, 2, 0])}, "with labels from 0 to 1, but got 0 to 2"),
    ],
)
def test_invalid_features_are_rejected(data_home, changes, message):
    put_features(data_home, **changes)
    with pytest.raises(ValueError, match=f"Expected the file .*caltech256_clip_vitb32.npz .*{message}"):
        load("caltech256")
