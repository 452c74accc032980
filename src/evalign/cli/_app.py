"""The commands and their options; the work is done in modules imported when a command runs."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

import evalign
from evalign.cli._main import EscapedError

if TYPE_CHECKING:
    from evalign.cli._console import Console


class _Commands(TyperGroup):
    """Commands whose ends we word ourselves: typer's versions do it each in a way of its own."""

    def invoke(self, ctx: Any) -> Any:
        # Warnings of workers would come as lines of code, once for every trial.
        before = os.environ.get("PYTHONWARNINGS")
        os.environ["PYTHONWARNINGS"] = before or "ignore"
        try:
            with warnings.catch_warnings():
                return super().invoke(ctx)
        except (KeyboardInterrupt, EOFError, OSError) as error:
            raise EscapedError(error) from None
        finally:
            if before is None:
                del os.environ["PYTHONWARNINGS"]


app = typer.Typer(
    name="evalign",
    cls=_Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Train, boost and tune classifiers on the metric they are judged by.",
    epilog="Example: evalign compare customers.csv --target churned --metric f1",
)

Table = Annotated[
    str,
    typer.Argument(
        help="A CSV file (also .gz), a Parquet file, or - for CSV from standard input.", show_default=False
    ),
]
Folder = Annotated[Path, typer.Argument(help="The folder of a model.", show_default=False)]
Target = Annotated[str, typer.Option(help="The column with the classes.", show_default=False)]
Metric = Annotated[
    str, typer.Option(help='What counts: a name ("f1"), "fbeta(beta=2)" or a formula ("2*tp/(2*tp+fp+fn)").')
]
Positive = Annotated[
    str | None,
    typer.Option(help="The positive of two classes; by default 1, yes, true ..., else the rarer one."),
]
Constraint = Annotated[
    list[str] | None, typer.Option(help='A bound to keep, such as "precision>=0.9"; may be repeated.')
]
Jobs = Annotated[int, typer.Option(min=1, help="Trials that run at a time.", show_default="all cores")]
Seed = Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seed of splits and methods.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no remarks.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show where an error came from.")]

CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _console(as_json: bool, quiet: bool) -> Console:
    """Where a command prints; a warning of a library is a remark too."""
    from evalign.cli._console import Console

    console = Console(as_json, quiet)
    warnings.showwarning = lambda message, *_, **__: console.remark(f"Note: {message}")
    return console


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"evalign {evalign.__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Nothing but the version is decided before the command."""


@app.command(epilog="Example: evalign compare customers.csv --target churned --metric f1 --out report/")
def compare(
    data: Table,
    target: Target,
    metric: Metric = "f1",
    positive: Positive = None,
    constraint: Constraint = None,
    methods: Annotated[
        str | None, typer.Option(help="Names with commas between; see `evalign methods`.", show_default="all")
    ] = None,
    repeats: Annotated[int, typer.Option(min=1, help="Splits to judge on.")] = 5,
    test_size: Annotated[float, typer.Option(help="The share of rows a split judges on.")] = 0.2,
    jobs: Jobs = CORES,
    seed: Seed = 0,
    out: Annotated[Path, typer.Option(help="The folder for the report and finished trials.")] = Path(
        "evalign-report"
    ),
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Find out which method is best for a metric on your data.

    Every method is trained and judged on the same splits. A run that was stopped goes on when it is
    started again with the same options.
    """
    from evalign.cli import _compare

    _compare.run(
        _console(as_json, quiet), data, target, metric, positive, constraint or [], methods, repeats,
        test_size, jobs, seed, out,
    )  # fmt: skip


@app.command(
    epilog='Example: evalign fit customers.csv --target churned --metric "fbeta(beta=2)" --out model/'
)
def fit(
    data: Table,
    target: Target,
    out: Annotated[Path, typer.Option(help="The folder for the model.", show_default=False)],
    metric: Metric = "f1",
    positive: Positive = None,
    constraint: Constraint = None,
    method: Annotated[
        str, typer.Option(help="auto chooses by cross-validation; else a name of `evalign methods`.")
    ] = "auto",
    methods: Annotated[
        str | None, typer.Option(help="What auto chooses from, with commas between.", show_default="all")
    ] = None,
    folds: Annotated[int, typer.Option(min=2, help="Folds of the choice.")] = 5,
    repeats: Annotated[
        int, typer.Option(min=1, help="How often folds are drawn at most, while the choice is not clear.")
    ] = 3,
    jobs: Jobs = CORES,
    seed: Seed = 0,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Train a classifier for a metric and save it, with a report.

    The folder holds the preparation of the columns, the classifier, report.html and a model card.
    """
    from evalign.cli import _fit

    _fit.run(
        _console(as_json, quiet), data, target, out, metric, positive, constraint or [], method, methods,
        folds, repeats, jobs, seed,
    )  # fmt: skip


@app.command(epilog="Example: evalign predict model/ new.csv --out predictions.csv --proba")
def predict(
    model: Folder,
    data: Table,
    out: Annotated[
        str, typer.Option(help="A .csv, .csv.gz or .parquet file, or - for standard output.")
    ] = "-",
    proba: Annotated[bool, typer.Option("--proba", help="The probability of each class too.")] = False,
    keep: Annotated[
        list[str] | None, typer.Option(help="A column to copy from the input; may be repeated.")
    ] = None,
    chunk: Annotated[int, typer.Option(min=1, help="Rows at a time.")] = 50_000,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Predict the class of every row, in the order of the rows.

    Files larger than memory are no trouble: rows are read, predicted and written in chunks.
    """
    from evalign.cli import _predict

    _predict.run(_console(as_json, quiet), model, data, out, proba, keep or [], chunk)


@app.command(epilog="Example: evalign evaluate model/ labelled.csv --out report/")
def evaluate(
    model: Folder,
    data: Table,
    target: Annotated[
        str | None, typer.Option(help="The column with the classes.", show_default="as in training")
    ] = None,
    threshold: Annotated[
        float | None, typer.Option(help="Decide by this threshold instead of the model's rule (two classes).")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="A folder for a report.", show_default="none")] = None,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Judge a model on rows whose class is known: metrics with intervals, confusion matrix, calibration."""
    from evalign.cli import _evaluate

    _evaluate.run(_console(as_json, quiet), model, data, target, threshold, out)


@app.command(epilog="Example: evalign report model/ --out report.html")
def report(
    model: Folder,
    out: Annotated[
        Path | None, typer.Option(help="Where to write it.", show_default="report.html in the folder")
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Write the report of a model again, for instance with a newer evalign."""
    from evalign.cli import _report

    _report.run(_console(as_json, quiet), model, out)


@app.command(epilog="Example: evalign metrics")
def metrics(as_json: Json = False, quiet: Quiet = False, debug: Debug = False) -> None:
    """List the metrics."""
    from evalign.cli import _lists

    _lists.metrics(_console(as_json, quiet))


@app.command(epilog="Example: evalign methods")
def methods(as_json: Json = False, quiet: Quiet = False, debug: Debug = False) -> None:
    """List the methods, from the simplest to the most elaborate."""
    from evalign.cli import _lists

    _lists.methods(_console(as_json, quiet))


@app.command(epilog="Example: evalign datasets fetch adult")
def datasets(
    action: Annotated[str | None, typer.Argument(help="fetch", show_default=False)] = None,
    name: Annotated[str | None, typer.Argument(help="The name of a dataset.", show_default=False)] = None,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """List the datasets of the papers, or fetch one."""
    from evalign.cli import _lists

    _lists.datasets(_console(as_json, quiet), action, name)


@app.command(epilog="Example: evalign reproduce btg-table4 --scale small")
def reproduce(
    table: Annotated[str | None, typer.Argument(help="The name of a table; without, all are listed.")] = None,
    scale: Annotated[str, typer.Option(help="small: minutes; full: the paper's protocol.")] = "small",
    jobs: Annotated[int, typer.Option(min=1, help="Worker processes.")] = 1,
    seed: Annotated[int, typer.Option(min=0, max=999_999, help="Seed of splits and trials.")] = 0,
    storage: Annotated[
        str | None, typer.Option(help="SQLAlchemy URL of the studies.", show_default="a SQLite file")
    ] = None,
    out: Annotated[
        str | None, typer.Option(help="The folder for the files.", show_default="docs/results")
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Make a table of the papers anew, the published numbers beside ours; a stopped run goes on."""
    from evalign.cli import _lists

    _lists.reproduce(_console(as_json, quiet), table, scale, jobs, seed, storage, out)
