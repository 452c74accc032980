"""Fit AutoGluon on a table and predict another; `rivals.py` runs this in an environment of its own.

    python _autogluon.py FOLDER METRIC SECONDS

FOLDER contains train.parquet and test.parquet; predicted.json is written there.
"""

import json
import sys
import time
from pathlib import Path

import pandas as pd
from autogluon.tabular import TabularPredictor

folder, metric, seconds = Path(sys.argv[1]), sys.argv[2], float(sys.argv[3])
train, test = (pd.read_parquet(folder / f"{part}.parquet") for part in ("train", "test"))
binary = train["class"].nunique() == 2
start = time.perf_counter()
predictor = TabularPredictor(
    "class",
    problem_type="binary" if binary else "multiclass",
    eval_metric="f1_macro" if metric == "f1" and not binary else metric,
    path=str(folder / "models"),
    verbosity=0,
).fit(train, time_limit=seconds, num_cpus=2, num_gpus=0, calibrate_decision_threshold=binary)
fitted = time.perf_counter() - start
predicted = predictor.predict(test)
result = {"predicted": [int(one) for one in predicted], "seconds": fitted, "models": predictor.model_names()}
(folder / "predicted.json").write_text(json.dumps(result))
