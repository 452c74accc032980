"""Reading the result of a query from a database."""

from __future__ import annotations

import importlib
from collections.abc import Generator
from pathlib import Path
from typing import Any

from evalign._errors import expected
from evalign.tables._source import hide_password
from evalign.tables._text_batches import to_text_batch


def read_sql(address: str, query: str, rows: int) -> Generator[tuple[list[str], Any], None, None]:
    """Read the result of a query: the column names with each batch of rows. Nothing is committed."""
    try:
        sqlalchemy: Any = importlib.import_module("sqlalchemy")
    except ImportError:
        raise ImportError("Databases need SQLAlchemy: pip install 'evalign[sql]'.") from None
    name = hide_password(address)
    try:
        engine = sqlalchemy.create_engine(address)
    except (sqlalchemy.exc.ArgumentError, sqlalchemy.exc.NoSuchModuleError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise expected(
            "source", "to be the address of a database with a query", f"{name} ({reason})"
        ) from None
    except ModuleNotFoundError as error:
        raise ImportError(f"{name} needs {error.name}: pip install {error.name}.") from None
    _check_file(engine.url)
    try:
        with engine.connect() as connection:
            streaming = connection.execution_options(stream_results=True)
            result = streaming.execute(sqlalchemy.text(query))
            if not result.returns_rows:
                raise expected("query", "to select rows", repr(query)[:200])
            names = list(result.keys())
            for part in result.partitions(rows):
                yield names, to_text_batch(part, names)
    except sqlalchemy.exc.OperationalError as error:
        raise expected("source", "to be a database that answers", f"{name} ({_explain(error)})") from None
    except sqlalchemy.exc.DBAPIError as error:
        raise expected(
            "query", "that the database understands", f"{query!r} ({_explain(error)})"[:400]
        ) from None
    finally:
        engine.dispose()


def _check_file(url: Any) -> None:
    """Refuse a file that does not exist, which SQLite would create."""
    file = url.database if url.get_backend_name() == "sqlite" else None
    if file and not file.startswith((":", "file:")) and not Path(file).exists():
        raise FileNotFoundError(f"Expected `source` to be a file, but {file} does not exist.")


def _explain(error: Any) -> str:
    return " ".join(str(error.orig).split())[:200]
