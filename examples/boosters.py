"""Continue LightGBM, XGBoost and CatBoost on F1: one objective for all three.

Each library trains on its own log-loss, then continues for as many rounds: on the log-loss again, and
with `evalign.boosting.objective`. F1 on new rows is printed for both, on the bundled mammography data. A
library that is not installed is skipped.

python examples/boosters.py
"""

import sys
from importlib.util import find_spec
from typing import Any

from sklearn.metrics import f1_score
from sklearn.model_selection import train_test_split

import evalign as ev

F1 = ev.boosting.objective("f1")


def boost_lightgbm(X: Any, y: Any, X_test: Any, rounds: int) -> tuple[Any, Any]:
    from lightgbm import LGBMClassifier

    common = {"n_estimators": rounds, "learning_rate": 0.05, "n_jobs": 1, "verbose": -1}
    first = LGBMClassifier(**common).fit(X, y)
    rival = LGBMClassifier(**common).fit(X, y, init_model=first)
    second = LGBMClassifier(**common, objective=F1, metric="None").fit(X, y, init_model=first)
    return rival.predict(X_test), ev.boosting.decide(second.predict(X_test, raw_score=True))


def boost_xgboost(X: Any, y: Any, X_test: Any, rounds: int) -> tuple[Any, Any]:
    from xgboost import XGBClassifier

    common = {"n_estimators": rounds, "learning_rate": 0.05, "n_jobs": 1}
    first = XGBClassifier(**common).fit(X, y)
    rival = XGBClassifier(**common).fit(X, y, xgb_model=first)
    second = XGBClassifier(**common, objective=F1).fit(X, y, xgb_model=first)
    return rival.predict(X_test), second.predict(X_test)


def boost_catboost(X: Any, y: Any, X_test: Any, rounds: int) -> tuple[Any, Any]:
    from catboost import CatBoostClassifier

    common = {
        "n_estimators": rounds, "learning_rate": 0.05, "class_names": (0, 1), "thread_count": 1,
        "verbose": False, "allow_writing_files": False, "random_state": 0,
    }  # fmt: skip
    first = CatBoostClassifier(**common).fit(X, y)
    rival = CatBoostClassifier(**common).fit(X, y, init_model=first)
    second = CatBoostClassifier(**common, loss_function=F1, eval_metric=ev.boosting.evaluation("f1"))
    return rival.predict(X_test), second.fit(X, y, init_model=first).predict(X_test)


LIBRARIES = {"lightgbm": boost_lightgbm, "xgboost": boost_xgboost, "catboost": boost_catboost}


def main(small: bool) -> None:
    data = ev.datasets.load("mammography")
    X, X_test, y, y_test = train_test_split(data.X, data.y, test_size=0.5, stratify=data.y, random_state=0)
    print(f"F1 on {len(y_test):,} new rows  continued on log-loss  continued on F1")
    for name, boost in LIBRARIES.items():
        if find_spec(name) is None:
            print(f"{name:21}  not installed")
            continue
        plain, aligned = boost(X, y, X_test, rounds=10 if small else 100)
        print(f"{name:21}  {f1_score(y_test, plain):21.3f}  {f1_score(y_test, aligned):15.3f}")


if __name__ == "__main__":
    main(small="--small" in sys.argv[1:])
