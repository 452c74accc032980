"""Pickled batches are read without executing anything in them."""

import os
import pickle
import random
import struct
import warnings

import numpy as np
import pytest

from evalign.papers.data._batches import batch

PIXELS = np.random.default_rng(0).integers(0, 256, (3, 3072)).astype(np.uint8)


def written(protocol=2, **changed):
    whole = {"batch_label": b"1 of 5", "labels": [6, 0, 9], "data": PIXELS, "filenames": [b"a.png"] * 3}
    return pickle.dumps({key.encode(): value for key, value in {**whole, **changed}.items()}, protocol)


def short(text):
    """A string of Python 2."""
    return b"U" + bytes([len(text)]) + text


def as_python2(order=b"\x89"):
    """What Python 2 and an old NumPy wrote, instruction by instruction: the form of the official files."""
    array = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85" + short(b"b") + b"\x87R"
    kind = b"cnumpy\ndtype\n" + short(b"u1") + b"K\x00K\x01\x87R(K\x03" + short(b"|") + b"NNN"
    kind += b"J\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    raw = PIXELS.tobytes("F" if order == b"\x88" else "C")
    state = b"(K\x01K\x03M\x00\x0c\x86" + kind + order + b"T" + struct.pack("<i", len(raw)) + raw + b"tb"
    return b"\x80\x02}(" + short(b"data") + array + state + short(b"labels") + b"](K\x06K\x00K\x09eu."


@pytest.mark.parametrize("protocol", [2, 3, 4])
def test_batches_of_this_python_are_read(protocol):
    pixels, labels = batch(written(protocol))
    np.testing.assert_array_equal(pixels, PIXELS)
    assert labels.tolist() == [6, 0, 9]


@pytest.mark.parametrize("order", [b"\x88", b"\x89"])
def test_batches_of_python_2_are_read(order):
    pixels, labels = batch(as_python2(order))
    np.testing.assert_array_equal(pixels, PIXELS)
    assert labels.tolist() == [6, 0, 9]
    # The hand-written instructions are what they claim to be; their names are old ones.
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
def test_a_malicious_file_is_refused_and_not_executed(tmp_path, call):
    proof = tmp_path / "executed"
    function, *arguments = (part.format(proof) if isinstance(part, str) else part for part in call)
    if function is getattr:
        arguments = [PIXELS, "tofile"]
    raw = written(data=Evil(function, *arguments))
    with pytest.raises(ValueError, match="a call of .*, which is not executed"):
        batch(raw)
    assert not proof.exists()


def test_a_malicious_file_would_have_been_executed_by_pickle(tmp_path):
    """Otherwise the test above would prove nothing."""
    proof = tmp_path / "executed"
    pickle.loads(written(data=Evil(os.mkdir, str(proof))))
    assert proof.exists()


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "EOFError"),
        (b"no pickle at all", "UnpicklingError|KeyError|invalid|could not"),
        (written()[:-1], "EOFError|exhausted|truncated"),
        (written()[:2000], "EOFError|exhausted|truncated"),
        (pickle.dumps([1, 2], 2), "a list, no dictionary"),
        (pickle.dumps({}, 2), "no array `data` and list `labels`"),
        (written(data=[1, 2]), "no array `data`"),
        (written(labels="abc"), "no array `data` and list `labels`"),
        (written(data=PIXELS.astype(float)), "an array of .*f8.*, not of bytes"),
        (written(data=np.array([None, {}])), "an array of .*O8.*, not of bytes"),
        (written(data=PIXELS[:, :100]), r"pixels of shape \(3, 100\)"),
        (written(data=PIXELS[0]), r"pixels of shape \(3072,\)"),
        (written(labels=[1, 2]), "2 labels, or not all whole numbers, for 3 images"),
        (written(labels=[1, 2, 2.5]), "3 labels, or not all whole numbers"),
        (written(labels=[1, 2, True]), "3 labels, or not all whole numbers"),
        (written(labels=[1, 2, 10**30]), "labels that are far too large"),
        (b"\x80\x02Pid\n.", "outside the file"),
        (b"\x80\x02c_codecs\nencode\nX\x01\x00\x00\x00aX\x03\x00\x00\x00hex\x86R.", "text encoded as 'hex'"),
        # Setting attributes of a stand-in itself.
        (b"\x80\x02c_codecs\nencode\nN}X\x01\x00\x00\x00aK\x01s\x86b.", "TypeError"),
        # Shapes that do not fit the bytes.
        (as_python2().replace(b"K\x03M\x00\x0c\x86", b"K\x04M\x00\x0c\x86"), "a broken array"),
        (as_python2().replace(b"K\x03M\x00\x0c\x86", b"NN\x86"), "a broken array"),
    ],
)
def test_what_is_no_batch_is_refused(raw, message):
    with pytest.raises(ValueError, match=message):
        batch(raw)


def test_a_file_cannot_ask_for_all_the_memory():
    """One instruction stores a value at place 4,000,000,000 of the memo: 32 GB in the unpickler in C."""
    pixels, _ = batch(as_python2().replace(b"](K\x06", b"]r\x00\x28\x6b\xee(K\x06"))
    np.testing.assert_array_equal(pixels, PIXELS)


def test_random_damage_ends_in_a_batch_or_in_a_clear_error():
    chance, whole, refusals = random.Random(0), as_python2(), 0
    head = whole.index(PIXELS.tobytes())
    for _ in range(400):
        broken = bytearray(whole)
        # Where the instructions are: the pixels may be anything.
        for at in chance.sample([*range(head), *range(len(whole) - 20, len(whole))], 2):
            broken[at] = chance.randrange(256)
        try:
            pixels, labels = batch(bytes(broken))
            assert pixels.shape == (len(labels), 3072)
        except ValueError:
            refusals += 1
    assert refusals > 200
