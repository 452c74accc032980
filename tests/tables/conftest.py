"""Tables as files, and a messy one of every type."""

import datetime
import decimal
import io

import numpy as np
import pandas as pd
import pytest

from evalign.tables import read


@pytest.fixture
def from_csv():
    """What pandas writes as CSV, or a text, read."""

    def csv(content, **settings):
        if isinstance(content, pd.DataFrame):
            content = content.to_csv(index=False, **settings)
        return read(io.BytesIO(content if isinstance(content, bytes) else content.encode()))

    return csv


@pytest.fixture
def from_parquet():
    """What pandas writes as Parquet, read."""

    def parquet(frame):
        file = io.BytesIO()
        frame.to_parquet(file)
        file.seek(0)
        return read(file)

    return parquet


@pytest.fixture(scope="session")
def messy():
    """300 rows with a column of each type that a Parquet file can hold, and the target `y`."""
    make, n = np.random.default_rng(0), 300

    def some(values, missing=0.1):
        return pd.Series(values).mask(make.random(n) < missing)

    cents = make.integers(-1000, 1000, n)
    days = make.integers(0, 900, n)
    return pd.DataFrame(
        {
            "customer": np.arange(n) * 10 + 7,
            "income": some(make.normal(size=n) * 1e4),
            "half": make.normal(size=n).astype("float32"),
            "children": make.integers(0, 5, n),
            "rooms": some(make.integers(1, 9, n)).astype("Int64"),
            "owner": make.random(n) < 0.5,
            "member": some(make.random(n) < 0.5).astype("boolean"),
            "price": [decimal.Decimal(int(value)).scaleb(-2) for value in cents],
            "huge": make.integers(2**63, 2**64 - 1, n, dtype=np.uint64),
            "ratio": np.where(make.random(n) < 0.1, np.inf, make.normal(size=n)),
            "seen": some(pd.Timestamp("2019-12-30") + pd.to_timedelta(make.integers(0, 10**8, n), "s")),
            "zoned": pd.Timestamp("2020-03-01", tz="Europe/Berlin") + pd.to_timedelta(days, "D"),
            "born": [datetime.date(1970, 1, 1) + datetime.timedelta(int(day)) for day in days],
            "clock": [datetime.time(int(hour)) for hour in make.integers(8, 12, n)],
            "city": some(pd.Series(make.choice(["Rome", "Oslo", "København", 'a, b;\n"c"'], n))),
            "colour": pd.Categorical(make.choice(["red", "blue"], n)),
            "grade": pd.Categorical(make.choice([3, 1, 2], n)),
            "answer": make.choice(["Yes", "no"], n),
            "same": 1.5,
            "empty": None,
            "email": [f"user{make.integers(10**9)}@example.org" for _ in range(n)],
            "remark": [f"the {row}th remark, which nobody will ever read to its end" for row in range(n)],
            "y": make.choice(["low", "mid", "high"], n, p=[0.6, 0.3, 0.1]),
        }
    )
