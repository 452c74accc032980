"""Texts as numbers: against scikit-learn, on a task they decide, in other scripts, and what is no text."""

import numpy as np
import pandas as pd
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.pipeline import make_pipeline

from evalign.tables import Column, Preparation, Schema
from evalign.tables._texts import TextFeatures

GOOD, BAD = ["solid", "fast", "lovely", "cheap"], ["broken", "late", "rude", "wrong"]
THINGS = ["lamp", "chair", "phone", "cable", "mug", "desk"]


def write_reviews(n, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.random(n) < 0.3
    words = [
        [rng.choice(BAD if rng.random() < (0.8 if bad else 0.2) else GOOD) for _ in range(3)] for bad in y
    ]
    texts = [
        f"The {rng.choice(THINGS)} was {a}, {b} and {c} on day {k}." for k, (a, b, c) in enumerate(words)
    ]
    return pd.DataFrame({"review": texts, "y": np.where(y, "bad", "good")})


def test_the_directions_span_what_scikit_learn_finds():
    """With all directions kept, the distances of texts are those of their TF-IDF."""
    texts = np.array(["a b c", "a b", "b c d", "d a", "a b c d"] * 2, dtype=object)
    features = TextFeatures.fit(texts).transform(texts)[:, :-1]
    vectorizer = TfidfVectorizer(token_pattern=r"\w+", ngram_range=(1, 2), sublinear_tf=True)
    expected = vectorizer.fit_transform(texts).toarray()
    np.testing.assert_allclose(features @ features.T, expected @ expected.T, atol=1e-5)


def test_a_table_of_text_alone_is_learned_from():
    train, test = write_reviews(400), write_reviews(400, seed=1)
    schema = Schema.infer(train, "y")
    assert [(column.kind, column.format) for column in schema.columns] == [("text", "")]
    preparation = Preparation(schema).fit(train)
    model = LogisticRegression(max_iter=1000).fit(preparation.transform(train), train["y"])
    terms = make_pipeline(TfidfVectorizer(ngram_range=(1, 2), min_df=2), LogisticRegression(max_iter=1000))
    terms.fit(train["review"], train["y"])
    predicted = model.predict(preparation.transform(test)), terms.predict(test["review"])
    ours, plain = (f1_score(test["y"], one, pos_label="bad") for one in predicted)
    assert ours > max(plain - 0.03, 0.7)


def test_unseen_words_empty_and_missing_texts_have_defined_features():
    train = write_reviews(50)
    preparation = Preparation(Schema.infer(train, "y")).fit(train)
    odd = ["zzz qqq", "", None, "?", " ", "!!!", "\u6211\u559c\u6b22", "word " * 50_000, "\x00 x"]
    matrix = preparation.transform(pd.DataFrame({"review": pd.Series(odd, dtype=object)}))
    assert np.isfinite(matrix).all()
    np.testing.assert_array_equal(matrix[:, :-1][:7], 0)  # no known word in any of them
    np.testing.assert_allclose(matrix[:, -1][:6], np.log1p([2, 0, 0, 0, 0, 0]))
    assert preparation.get_feature_names_out()[-1] == "review: words"


def test_texts_without_spaces_are_read_by_characters():
    texts = [f"\u6211\u559c\u6b22\u8fd9\u4e2a{chr(0x4E00 + row)}\u4ea7\u54c1" for row in range(40)]
    schema = Schema.infer(pd.DataFrame({"t": texts, "y": ["a", "b"] * 20}), "y")
    assert [(column.kind, column.format) for column in schema.columns] == [("text", "characters")]
    features = TextFeatures.fit(np.array(texts, dtype=object), by_character=True)
    assert len(features.buckets) > 7  # characters, and pairs of them
    known = features.transform(np.array(["\u559c\u6b22", "zz"], dtype=object))
    assert np.abs(known[0, :-1]).max() > 0.01
    np.testing.assert_array_equal(known[1, :-1], 0)


@pytest.mark.parametrize("texts", [[None, None], ["a"], ["a", "b"], ["", "a a a"], ["same", "same"]])
def test_too_few_texts_give_finite_features(texts):
    texts = np.array(texts, dtype=object)
    matrix = TextFeatures.fit(texts).transform(texts)
    assert np.isfinite(matrix).all()
    assert matrix.shape[1] >= 1


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([f"Anna number {row} Schmidt" for row in range(60)], "text"),
        ([f"{row:032x}" * 3 for row in range(60)], "dropped"),  # hashes
        ([f"https://example.org/{row}/a/b" for row in range(60)], "dropped"),
        ([f"first{row} last{row}" for row in range(60)], "dropped"),  # names
        (["to be or not to be", "that is the question here"] * 30, "category"),
        ([f"shop {row % 55}" for row in range(110)], "category"),
    ],
)
def test_what_is_a_text(values, kind):
    table = pd.DataFrame(
        {"x": values, "noise": np.arange(len(values)) % 7, "y": ["a", "b"] * (len(values) // 2)}
    )
    assert Schema.infer(table, "y").columns[0].kind == kind


def test_the_user_knows_better():
    rows = 60
    table = pd.DataFrame(
        {
            "zip": np.arange(rows) % 9, "name": [f"a{row}" for row in range(rows)], "n": np.arange(rows) % 7,
            "day": ["2020-01-01", "2020-01-01", "2020-01-02"] * 20, "y": ["a", "b"] * 30,
        }
    )  # fmt: skip
    kinds = {"zip": "category", "name": "text", "n": "dropped", "day": "category"}
    schema = Schema.infer(table, "y", kinds)
    assert {column.name: column.kind for column in schema.columns} == kinds
    assert schema.warnings == ("`n` was left out: as the user said.",)
    assert np.isfinite(Preparation(schema).fit_transform(table)).all()
    many = Schema.infer(table, "y", {"name": "category"}).columns[1]
    assert many == Column("name", "category", format="many")
    for wrong, message in [
        ({"nme": "text"}, r"`kinds` of columns to learn from, but got 'nme'\. Did you mean 'name'"),
        ({"y": "text"}, "`kinds` of columns to learn from"),
        ({"name": "txt"}, r"`kinds` to be number.*but got 'txt'\. Did you mean 'text'"),
        ({"name": "date"}, r"`kinds` that suit the values of 'name', but got date \(no dates\)"),
        ({"name": "number"}, "`name` to contain numbers"),
    ]:
        with pytest.raises(ValueError, match=message):
            Schema.infer(table, "y", wrong)
