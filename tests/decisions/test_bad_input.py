"""What `fit_rule` and `predict` refuse and accept."""

import numpy as np
import pandas as pd
import pytest
import torch

from evalign import metrics
from evalign.decisions import fit_rule

P, Y = [0.1, 0.6, 0.7, 0.2], [0, 1, 1, 0]
P3 = np.array([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.1, 0.2, 0.7], [0.5, 0.4, 0.1]])
Y3 = [0, 1, 2, 1]
L, YL = np.array([[0.2, 0.9], [0.7, 0.4], [0.5, 0.1]]), [[0, 1], [1, 0], [0, 0]]
NA = float("nan")


def branching(c):
    return c.tp if c.tp.sum() > 0 else c.fp


REFUSED = {
    "sum": ((np.full((4, 3), 0.2), Y3, "f1"), {}, "probabilities` with rows that sum to 1, but got sum 0.6"),
    "above 1": (([0.1, 1.2, 0.3, 0.4], Y, "f1"), {}, "probabilities` in [0, 1], but got 1.2"),
    "below 0": (([0.1, -3.0, 0.3, 0.4], Y, "f1"), {}, "probabilities` in [0, 1], but got -3.0"),
    "nan": (([0.1, NA, 0.3, 0.4], Y, "f1"), {}, "probabilities` without NaN or infinity, but got nan"),
    "infinite": (([0.1, np.inf, 0.3, 0.4], Y, "f1"), {}, "probabilities` without NaN"),
    "empty": (([], [], "f1"), {}, "y` with one label per row"),
    "no rows": ((np.zeros((0, 3)), Y3, "f1"), {}, "probabilities` of shape"),
    "texts": ((["0.1", "0.2", "0.3", "0.4"], Y, "f1"), {}, "probabilities` to be an array of numbers"),
    "words": ((["a", "b", "c", "d"], Y, "f1"), {}, "probabilities` to be an array of numbers"),
    "complex": ((np.array([1j, 0, 0, 0]), Y, "f1"), {}, "probabilities` to be an array of numbers"),
    "ragged": (([[0.1, 0.9], [1.0]], [0, 1], "f1"), {}, "probabilities` to be an array of numbers"),
    "3-d": ((np.zeros((4, 2, 2)), Y, "f1"), {}, "probabilities` of shape (n,) or (n, classes), but got"),
    "a number": ((0.5, Y, "f1"), {}, "probabilities` of shape"),
    "none": ((None, Y, "f1"), {}, "probabilities` of shape"),
    "fewer y": ((P, Y[:3], "f1"), {}, "y` with the 4 rows of `probabilities`, but got 3"),
    "fewer y of three": ((P3[:3], Y3, "f1"), {}, "y` with the 3 rows"),
    "y nan": ((P, [0, 1, NA, 1], "f1"), {}, "y` without missing labels, but got nan in row 2"),
    "y none": ((P, ["a", "b", None, "b"], "f1"), {}, "y` without missing labels, but got None in row 2"),
    "y object nan": ((P, np.array(["a", "b", NA, "b"], object), "f1"), {}, "y` without missing"),
    "y pandas": ((P, pd.Series(["a", "b", None, "b"]), "f1"), {}, "y` without missing"),
    "y pandas NA": ((P, pd.Series([0, 1, pd.NA, 1], dtype="Int64"), "f1"), {}, "y` without missing"),
    "y string NA": ((P, pd.Series(["a", pd.NA, "b", "b"], dtype="string"), "f1"), {}, "y` without missing"),
    "y mixed": ((P, np.array(["a", 1, "a", 1], object), "f1"), {}, "y` with labels of one type"),
    "y missing": ((P, None, "f1"), {}, "y` with one label per row"),
    "y 3-d": ((P, np.zeros((4, 1, 1)), "f1"), {}, "y` with one label per row"),
    "y ragged": ((P, [[0], [1, 2], [0], [1]], "f1"), {}, "y` with rows of equal length"),
    "fewer classes": ((P3, ["a", "b", "a", "b"], "f1"), {}, "y` with one class per column, 3, but got 2"),
    "more classes": ((P, ["a", "b", "c", "b"], "f1"), {}, "y` with one class per column, 2, but got 3"),
    "one class": ((P, ["a"] * 4, "f1"), {}, "y` with one class per column, 2, but got 1 classes. Name them"),
    "stray": ((P, ["a", "b", "c", "b"], "f1"), {"classes": ["a", "b"]}, "y` with labels of `classes`"),
    "number texts": ((P, ["0", "1", "1", "0"], "f1"), {"classes": [0, 1]}, "y` with labels of `classes`"),
    "unsorted": ((P, ["a", "b", "b", "a"], "f1"), {"classes": ["b", "a"]}, "classes` to be 2 sorted labels"),
    "twice": ((P, ["a", "a", "a", "a"], "f1"), {"classes": ["a", "a"]}, "classes` to be 2 sorted labels"),
    "three for two": ((P, Y, "f1"), {"classes": [0, 1, 2]}, "classes` to be 2 sorted labels"),
    "a number as classes": ((P, Y, "f1"), {"classes": 2}, "classes` to be 2 sorted labels"),
    "classes of labels": ((L, YL, "f1"), {"classes": ["a", "b"]}, "classes` only for one label per row"),
    "labels of 2": ((L, [[0, 2], [1, 0], [0, 0]], "f1"), {}, "y` with only 0 and 1"),
    "labels nan": ((L, [[0, NA], [1, 0], [0, 0]], "f1"), {}, "y` without missing labels"),
    "labels text": ((L, [["a", "b"]] * 3, "f1"), {}, "y` with only 0 and 1"),
    "labels shape": ((np.full((3, 3), 0.5), YL, "f1"), {}, "y` of the shape (3, 3)"),
    "confidence 1": ((P, Y, "f1"), {"confidence": 1.0}, "confidence` in (0.5, 1), but got 1.0"),
    "confidence 0.5": ((P, Y, "f1"), {"confidence": 0.5}, "confidence` in (0.5, 1)"),
    "confidence text": ((P, Y, "f1"), {"confidence": "high"}, "confidence` in (0.5, 1), but got 'high'"),
    "confidence true": ((P, Y, "f1"), {"confidence": True}, "confidence` in (0.5, 1)"),
    "constraint": ((P, Y, "f1", "precision > 0.5"), {}, "constraint` to be a metric, >= or <=, and a number"),
    "constraint 5": ((P, Y, "f1", 5), {}, "constraints` to be a list"),
    "constraint name": ((P, Y, "f1", "precison >= 0.5"), {}, "metric` to be a known name"),
    "constraint curve": ((P, Y, "f1", "auroc >= 0.5"), {}, "constraint` on a metric that gives one number"),
    "curve": ((P, Y, "auroc"), {}, "metric` that gives one number from predicted classes, but got auroc"),
    "no average": ((P, Y, "f1(average=None)"), {}, "metric` that gives one number"),
    "binary of three": ((P3, Y3, "f1(average='binary')"), {}, "average` other than 'binary'"),
    "costs": ((P, Y, metrics.cost(np.ones((3, 3)))), {}, "matrix` of costs for 2 classes, but got 3"),
    "betas": ((P3, Y3, "fbeta(beta=[1, 2])"), {}, "beta` with one value for each of 3 classes"),
    "metric 5": ((P, Y, 5), {}, "metric` to be a function or a text"),
    "branching": ((P, Y, branching), {}, "metric` to use tensor operations only"),
    "float": ((P, Y, lambda c: 0.5), {}, "metric` to return a tensor"),
    "shape": ((P, Y, lambda c: c.matrix), {}, "metric` to return one value"),
    "negative weight": ((P, Y, "f1"), {"sample_weight": [-1, 1, 1, 1]}, "sample_weight` with finite"),
    "weight nan": ((P, Y, "f1"), {"sample_weight": [NA, 1, 1, 1]}, "sample_weight` with finite weights"),
    "weights 0": ((P, Y, "f1"), {"sample_weight": [0, 0, 0, 0]}, "sample_weight` with finite weights >= 0"),
    "weight text": ((P, Y, "f1"), {"sample_weight": list("abcd")}, "sample_weight` to be an array"),
    "fewer weights": ((P, Y, "f1"), {"sample_weight": [1, 1]}, "sample_weight` of shape (4,), but got"),
    "one weight": ((P, Y, "f1"), {"sample_weight": 1.0}, "sample_weight` of shape (4,)"),
    "huge weight": ((P, Y, "f1"), {"sample_weight": [1e308] * 4}, "sample_weight` small enough"),
    "no seed": ((P3, Y3, "f1"), {"random_state": None}, "random_state` to be an integer"),
    "seed": ((P3, Y3, "f1"), {"random_state": -1}, "random_state` to be an integer in [0, 2^32)"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_bad_input_is_refused(name):
    given, options, told = REFUSED[name]
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        fit_rule(*given, **options)
    assert str(caught.value).startswith("Expected `")
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("given", "told"),
    [(P3[:, :2] / P3[:, :2].sum(1, keepdims=True), "with 3 columns, but got 2"), ([0.2], "with 3 columns"),
     ([[NA, 0.5, 0.5]], "without NaN"), ([[0.2, 0.2, 0.2]], "sum to 1"), ([[2, -1, 0]], "in [0, 1]"),
     ("abc", "numbers"), (np.zeros((0, 3)), "of shape")],
)  # fmt: skip
def test_predict_refuses_too(given, told):
    rule = fit_rule(P3, Y3, "f1")
    with pytest.raises(ValueError, match="^Expected `probabilities`") as caught:
        rule.predict(given)
    assert told in str(caught.value)


@pytest.mark.parametrize(
    "kind",
    [list, tuple, np.float32, np.float16, torch.tensor, torch.float16, "grad", "frame", "fortran", "frozen"],
)  # fmt: skip
@pytest.mark.parametrize(("p", "y"), [(P, Y), (P3, Y3), (L, YL)])
def test_probabilities_of_every_type(kind, p, y):
    table = np.array(p)
    if isinstance(kind, torch.dtype):
        given = torch.tensor(table).to(kind)
    elif kind == "grad":
        given = torch.tensor(table, requires_grad=True)
    elif kind == "frame":
        given = pd.DataFrame(table) if table.ndim == 2 else pd.Series(table)
    elif kind == "fortran":
        given = np.asfortranarray(table)
    elif kind == "frozen":
        given = table.copy()
        given.flags.writeable = False
    elif kind in (np.float32, np.float16):
        given = table.astype(kind)
    else:
        given = kind(table.tolist())
    rule = fit_rule(given, y, "accuracy")
    assert rule.value == fit_rule(table, y, "accuracy").value
    np.testing.assert_array_equal(rule.predict(given), rule.predict(table))


@pytest.mark.parametrize(
    "y",
    [np.array(Y, bool), torch.tensor(Y), torch.tensor(Y, dtype=torch.float32, requires_grad=True),
     pd.Series(Y), np.array(Y)[:, None], pd.Series(Y, dtype="Int64"),
     pd.Series(["a", "b", "b", "a"], dtype="category"),
     pd.Series(["a", "b", "b", "a"], dtype="string"), pd.Series(["a", "b", "b", "a"], index=[9, 8, 7, 6])],
)  # fmt: skip
def test_labels_of_every_type(y):
    rule = fit_rule(P, y, "f1", sample_weight=torch.ones(4))
    assert rule.value == 1.0
    flat = (y.detach().numpy() if isinstance(y, torch.Tensor) else np.asarray(y)).reshape(-1)
    assert rule.predict(P).tolist() == flat.tolist()


def test_labels_that_are_absent_from_the_rows():
    assert fit_rule(P, [True] * 4, "f1").predict([0.9]).tolist() == [True]
    assert fit_rule(P, [1] * 4, "f1").classes.tolist() == [0, 1]
    assert fit_rule(P3, [0, 2, 2, 0], "f1").classes.tolist() == [0, 1, 2]
    assert fit_rule(P3, list("acca"), "f1", classes=list("abc")).classes.tolist() == ["a", "b", "c"]


def test_probabilities_that_rounding_moved_out_of_bounds_are_accepted():
    p = np.array([1 + 1e-7, -1e-8, 0.7, 0.2], dtype=np.float64)
    rule = fit_rule(p, [1, 0, 1, 0], "f1")
    assert rule.value == 1.0
    assert rule.predict(p).tolist() == [1, 0, 1, 0]
