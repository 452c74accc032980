"""Run by test_resume.py: fit, and save the scores: `python fit_and_save.py CHECKPOINT_OR_NONE SCORES.npy`."""

import sys

import numpy as np

import evalign as ev

if __name__ == "__main__":
    folder, target = sys.argv[1:]
    data = np.random.default_rng(0)
    X = data.normal(size=(600, 5))
    y = (X[:, 0] + data.normal(size=600) > 1).astype(int)
    model = ev.MetricClassifier(
        "f1", hidden=(16, 8), max_epochs=12, patience=6, batch_size=128, random_state=3, n_bags=2,
        checkpoint=None if folder == "none" else folder,
    )  # fmt: skip
    np.save(target, model.fit(X, y).decision_function(X))
