"""Pickled batches are read without executing anything in them."""

import os
import pickle
import random
import struct
import warnings

import numpy as np
import pytest

from evalign.papers.data._batches import read_batch

PIXELS = np.random.default_rng(0).integers(0, 256, (3, 3072)).astype(np.uint8)


def pickled(protocol=2, **changes):
    whole = {"batch_label": b"1 of 5", "labels": [6, 0, 9], "data": PIXELS, "filenames": [b"a.png"] * 3}
    return pickle.dumps({key.encode(): value for key, value in {**whole, **changes}.items()}, protocol)


def string(text):
    """A short string of Python 2."""
    return b"U" + bytes([len(text)]) + text


def as_python2(order=b"\x89"):
    """A batch as written by Python 2 and an old NumPy, instruction by instruction: the official format."""
    array = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85" + string(b"b") + b"\x87R"
    kind = b"cnumpy\ndtype\n" + string(b"u1") + b"K\x00K\x01\x87R(K\x03" + string(b"|") + b"NNN"
    kind += b"J\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    raw = PIXELS.tobytes("F" if order == b"\x88" else "C")
    state = b"(K\x01K\x03M\x00\x0c\x86" + kind + order + b"T" + struct.pack("<i", len(raw)) + raw + b"tb"
    return b"\x80\x02}(" + string(b"data") + array + state + string(b"labels") + b"](K\x06K\x00K\x09eu."


@pytest.mark.parametrize("protocol", [2, 3, 4])
def test_batches_of_this_python_are_read(protocol):
    pixels, labels = read_batch(pickled(protocol))
    np.testing.assert_array_equal(pixels, PIXELS)
    assert labels.tolist() == [6, 0, 9]


@pytest.mark.parametrize("order", [b"\x88", b"\x89"])
def test_batches_of_python_2_are_read(order):
    pixels, labels = read_batch(as_python2(order))
    np.testing.assert_array_equal(pixels, PIXELS)
    assert labels.tolist() == [6, 0, 9]
    # The hand-written instructions are a valid pickle; their names are deprecated.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        whole = pickle.loads(as_python2(order), encoding="bytes")
    np.testing.assert_array_equal(whole[b"data"], PIXELS)


class Evil:
    """Runs a command when unpickled."""

    def __init__(self, call, *arguments):
        self.call, self.arguments = call, arguments

    def __reduce__(self):
        return self.call, self.arguments


@pytest.mark.parametrize(
    "call", [(os.system, "touch {}"), (exec, "open({!r}, 'w')"), (os.mkdir, "{}"), (getattr, os, "system")]
)
def test_a_malicious_file_is_rejected_and_not_executed(tmp_path, call):
    proof = tmp_path / "executed"
    function, *arguments = (part.format(proof) if isinstance(part, str) else part for part in call)
    if function is getattr:
        arguments = [PIXELS, "tofile"]
    raw = pickled(data=Evil(function, *arguments))
    with pytest.raises(ValueError, match="a call of .*, which is not executed"):
        read_batch(raw)
    assert not proof.exists()


def test_a_malicious_file_would_have_been_executed_by_pickle(tmp_path):
    """Otherwise the test above would prove nothing."""
    proof = tmp_path / "executed"
    pickle.loads(pickled(data=Evil(os.mkdir, str(proof))))
    assert proof.exists()


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "EOFError"),
        (b"no pickle at all", "UnpicklingError|KeyError|invalid|could not"),
        (pickled()[:-1], "EOFError|exhausted|truncated"),
        (pickled()[:2000], "EOFError|exhausted|truncated"),
        (pickle.dumps([1, 2], 2), "a list instead of a dictionary"),
        (pickle.dumps({}, 2), "without an array `data` and a list `labels`"),
        (pickled(data=[1, 2]), "without an array `data`"),
        (pickled(labels="abc"), "without an array `data` and a list `labels`"),
        (pickled(data=PIXELS.astype(float)), "an array of .*f8.*, not of bytes"),
        (pickled(data=np.array([None, {}])), "an array of .*O8.*, not of bytes"),
        (pickled(data=PIXELS[:, :100]), r"pixels of shape \(3, 100\)"),
        (pickled(data=PIXELS[0]), r"pixels of shape \(3072,\)"),
        (pickled(labels=[1, 2]), "2 labels, or not all whole numbers, for 3 images"),
        (pickled(labels=[1, 2, 2.5]), "3 labels, or not all whole numbers"),
        (pickled(labels=[1, 2, True]), "3 labels, or not all whole numbers"),
        (pickled(labels=[1, 2, 10**30]), "labels that are far too large"),
        (b"\x80\x02Pid\n.", "outside the file"),
        (b"\x80\x02c_codecs\nencode\nX\x01\x00\x00\x00aX\x03\x00\x00\x00hex\x86R.", "text encoded as 'hex'"),
        # Setting attributes of a stand-in itself.
        (b"\x80\x02c_codecs\nencode\nN}X\x01\x00\x00\x00aK\x01s\x86b.", "TypeError"),
        # Shapes that do not fit the bytes.
        (as_python2().replace(b"K\x03M\x00\x0c\x86", b"K\x04M\x00\x0c\x86"), "a broken array"),
        (as_python2().replace(b"K\x03M\x00\x0c\x86", b"NN\x86"), "a broken array"),
    ],
)
def test_invalid_batches_are_rejected(raw, message):
    with pytest.raises(ValueError, match=message):
        read_batch(raw)


def test_a_file_cannot_allocate_all_memory():
    """One instruction stores a value at index 4,000,000,000 of the memo: 32 GB in the unpickler in C."""
    pixels, _ = read_batch(as_python2().replace(b"](K\x06", b"]r\x00\x28\x6b\xee(K\x06"))
    np.testing.assert_array_equal(pixels, PIXELS)


def test_random_damage_gives_a_batch_or_a_clear_error():
    chance, whole, rejections = random.Random(0), as_python2(), 0
    head = whole.index(PIXELS.tobytes())
    for _ in range(400):
        broken = bytearray(whole)
        # Only in the instructions: the pixels may be anything.
        for at in chance.sample([*range(head), *range(len(whole) - 20, len(whole))], 2):
            broken[at] = chance.randrange(256)
        try:
            pixels, labels = read_batch(bytes(broken))
            assert pixels.shape == (len(labels), 3072)
        except ValueError:
            rejections += 1
    assert rejections > 200
