"""Tables through CSV and Parquet, and a messy one with columns of every type."""

import datetime
import decimal
import io

import numpy as np
import pandas as pd
import pytest

from evalign.tables import read


@pytest.fixture
def from_csv():
    """Read a text, or what pandas writes as CSV."""

    def read_csv(content, **settings):
        if isinstance(content, pd.DataFrame):
            content = content.to_csv(index=False, **settings)
        return read(io.BytesIO(content if isinstance(content, bytes) else content.encode()))

    return read_csv


@pytest.fixture
def from_parquet():
    """Read what pandas writes as Parquet."""

    def read_parquet(frame):
        file = io.BytesIO()
        frame.to_parquet(file)
        file.seek(0)
        return read(file)

    return read_parquet


@pytest.fixture(scope="session")
def messy():
    """300 rows with a column of each type that a Parquet file can contain, and the target `y`."""
    rng, n = np.random.default_rng(0), 300

    def with_gaps(values):
        return pd.Series(values).mask(rng.random(n) < 0.1)

    cents = rng.integers(-1000, 1000, n)
    days = rng.integers(0, 900, n)
    return pd.DataFrame(
        {
            "customer": np.arange(n) * 10 + 7,
            "income": with_gaps(rng.normal(size=n) * 1e4),
            "half": rng.normal(size=n).astype("float32"),
            "children": rng.integers(0, 5, n),
            "rooms": with_gaps(rng.integers(1, 9, n)).astype("Int64"),
            "owner": rng.random(n) < 0.5,
            "member": with_gaps(rng.random(n) < 0.5).astype("boolean"),
            "price": [decimal.Decimal(int(value)).scaleb(-2) for value in cents],
            "huge": rng.integers(2**63, 2**64 - 1, n, dtype=np.uint64),
            "ratio": np.where(rng.random(n) < 0.1, np.inf, rng.normal(size=n)),
            "seen": with_gaps(pd.Timestamp("2019-12-30") + pd.to_timedelta(rng.integers(0, 10**8, n), "s")),
            "zoned": pd.Timestamp("2020-03-01", tz="Europe/Berlin") + pd.to_timedelta(days, "D"),
            "born": [datetime.date(1970, 1, 1) + datetime.timedelta(int(day)) for day in days],
            "clock": [datetime.time(int(hour)) for hour in rng.integers(8, 12, n)],
            "city": with_gaps(pd.Series(rng.choice(["Rome", "Oslo", "København", 'a, b;\n"c"'], n))),
            "colour": pd.Categorical(rng.choice(["red", "blue"], n)),
            "grade": pd.Categorical(rng.choice([3, 1, 2], n)),
            "answer": rng.choice(["Yes", "no"], n),
            "same": 1.5,
            "empty": None,
            "email": [f"user{rng.integers(10**9)}@example.org" for _ in range(n)],
            "remark": [f"remark number {row}, which nobody will ever read to its end" for row in range(n)],
            "y": rng.choice(["low", "mid", "high"], n, p=[0.6, 0.3, 0.1]),
        }
    )
