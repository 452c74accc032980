"""The commands and their options; the work is done in modules imported when a command runs."""

from __future__ import annotations

import os
import warnings
from functools import cache
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer.core import TyperGroup

import evalign
from evalign.cli._main import EscapedError

if TYPE_CHECKING:
    from evalign.cli._console import Console


class _Commands(TyperGroup):
    """Commands that leave the wording of interruptions to `main`: it differs between versions of typer."""

    def invoke(self, ctx: Any) -> Any:
        # Worker processes would print their warnings as lines of code, once per trial.
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
        help="A file of CSV, JSON lines, Parquet, Feather or Excel, an address (https://, s3://, or of a "
        "database with --query), or - for text from standard input.",
        show_default=False,
    ),
]
Folder = Annotated[Path, typer.Argument(help="The folder of a model.", show_default=False)]
Target = Annotated[str, typer.Option(help="The column with the classes.", show_default=False)]
Metric = Annotated[
    str,
    typer.Option(help='The metric: a name ("f1"), "fbeta(beta=2)" or a formula ("2*tp/(2*tp+fp+fn)").'),
]
Positive = Annotated[
    str | None,
    typer.Option(help="The positive one of two classes; by default 1, yes, true ..., else the rarer one."),
]
Constraint = Annotated[
    list[str] | None,
    typer.Option(help='A constraint to satisfy, such as "precision>=0.9"; may be repeated.'),
]
Threshold = Annotated[
    float | None,
    typer.Option(help="Decide by this threshold instead of the model's rule (two classes)."),
]
Verify = Annotated[
    Path | None,
    typer.Option(help="Refuse a model that was not signed with this key (Ed25519, public, PEM)."),
]
Group = Annotated[
    str | None,
    typer.Option(help="A column such as patient_id: its rows are never on both sides of a split."),
]
Time = Annotated[
    str | None, typer.Option(help="A column of dates or numbers: later rows judge, instead of random ones.")
]
Weight = Annotated[str | None, typer.Option(help="A column with the weights of the rows.")]
Kind = Annotated[
    list[str] | None,
    typer.Option(
        help="The kind of a column, if it is not what its values suggest, such as zip=category or "
        "review=text; number, boolean, date and dropped are the others. May be repeated.",
        metavar="NAME=KIND",
    ),
]
DropUnlabelled = Annotated[
    bool, typer.Option("--drop-unlabelled", help="Leave out rows without a class instead of failing.")
]
By = Annotated[
    str | None, typer.Option(help="A column: the report shows how good the model is for each of its values.")
]
Format = Annotated[
    Literal["html", "md", "json"],
    typer.Option("--format", help="The format of the report: a page, Markdown or JSON."),
]
Query = Annotated[
    str | None,
    typer.Option(help="What to read from a database, in SQL; the table is its SQLAlchemy address."),
]
Jobs = Annotated[int, typer.Option(min=1, help="How many trials run in parallel.", show_default="all cores")]
Seed = Annotated[int, typer.Option(min=0, max=2**32 - 1, help="The seed of splits and methods.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print no progress and no remarks.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]

CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _console(as_json: bool, quiet: bool) -> Console:
    """Where a command prints, including the warnings of libraries."""
    from evalign.cli._console import Console

    console = Console(as_json, quiet)
    warnings.showwarning = lambda message, *_, **__: console.warn([str(message)])
    return console


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"evalign {evalign.__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Take the options that come before a command."""


@app.command(epilog="Example: evalign compare customers.csv --target churned --metric f1 --out report/")
def compare(
    data: Table,
    target: Target,
    metric: Metric = "f1",
    positive: Positive = None,
    constraint: Constraint = None,
    group: Group = None,
    time: Time = None,
    weight: Weight = None,
    kind: Kind = None,
    drop_unlabelled: DropUnlabelled = False,
    query: Query = None,
    methods: Annotated[
        str | None, typer.Option(help="Names separated by commas; see `evalign methods`.", show_default="all")
    ] = None,
    repeats: Annotated[int, typer.Option(min=1, help="The number of splits.")] = 5,
    test_size: Annotated[float, typer.Option(help="The share of rows to evaluate on.")] = 0.2,
    jobs: Jobs = CORES,
    seed: Seed = 0,
    out: Annotated[Path, typer.Option(help="The folder for the report and finished trials.")] = Path(
        "evalign-report"
    ),
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> int:
    """Find out which method is best for a metric on your data.

    Every method is trained and evaluated on the same splits. An interrupted run resumes when it is started
    again with the same options.
    """
    from evalign.cli import _compare

    options = _compare.CompareOptions(
        data=data, target=target, metric=metric, positive=positive, constraints=tuple(constraint or ()),
        methods=methods, repeats=repeats, test_size=test_size, jobs=jobs, seed=seed, out=out,
        group=group, time=time, weight=weight, kinds=tuple(kind or ()),
        drop_unlabelled=drop_unlabelled, query=query,
    )  # fmt: skip
    return _compare.run(_console(as_json, quiet), options)


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
    group: Group = None,
    time: Time = None,
    weight: Weight = None,
    kind: Kind = None,
    drop_unlabelled: DropUnlabelled = False,
    query: Query = None,
    by: By = None,
    method: Annotated[
        str, typer.Option(help="auto mixes several for the metric; or a name from `evalign methods`.")
    ] = "auto",
    methods: Annotated[
        str | None,
        typer.Option(help="The methods that auto mixes, separated by commas.", show_default="all"),
    ] = None,
    folds: Annotated[int, typer.Option(min=2, help="The number of folds of the cross-validation.")] = 5,
    time_limit: Annotated[
        str | None,
        typer.Option(help='The time for auto, such as "90s", "10m" or "1.5h".', show_default="none"),
    ] = None,
    sign: Annotated[
        Path | None, typer.Option(help="Sign the model with this key (Ed25519, private, PEM).")
    ] = None,
    jobs: Jobs = CORES,
    seed: Seed = 0,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> int:
    """Train a classifier for a metric and save it with a report.

    The folder contains the preparation of the columns, the classifier, report.html and a model card. The exit
    status is 3 if a constraint is violated on the held-out rows.
    """
    begun = perf_counter()  # what is imported and read counts, too
    from evalign.cli import _fit

    options = _fit.FitOptions(
        data=data, target=target, metric=metric, positive=positive, constraints=tuple(constraint or ()),
        method=method, methods=methods, folds=folds, time_limit=time_limit, begun=begun, jobs=jobs,
        seed=seed, out=out, sign=sign, group=group, time=time, weight=weight, kinds=tuple(kind or ()),
        drop_unlabelled=drop_unlabelled, query=query, by=by,
    )  # fmt: skip
    return _fit.run(_console(as_json, quiet), options)


@app.command(epilog="Example: evalign predict model/ new.csv --out predictions.csv --proba")
def predict(
    model: Folder,
    data: Table,
    out: Annotated[
        str, typer.Option(help="A .csv, .csv.gz or .parquet file, or - for standard output.")
    ] = "-",
    proba: Annotated[bool, typer.Option("--proba", help="Write the probability of each class too.")] = False,
    keep: Annotated[
        list[str] | None, typer.Option(help="A column to copy from the input; may be repeated.")
    ] = None,
    chunk: Annotated[int, typer.Option(min=1, help="The number of rows per chunk.")] = 50_000,
    raw: Annotated[
        bool, typer.Option("--raw", help="Write texts to CSV as they are, even if a spreadsheet runs them.")
    ] = False,
    threshold: Threshold = None,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict", help="Fail, and write no file, if the rows differ from those of the training."
        ),
    ] = False,
    query: Query = None,
    verify: Verify = None,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Predict the class of every row, in the order of the rows.

    Rows are read, predicted and written in chunks, so files may be larger than memory. Notes say where the
    rows differ from those of the training.
    """
    from evalign.cli import _predict

    options = _predict.PredictOptions(
        model=model, data=data, out=out, proba=proba, keep=tuple(keep or ()), chunk=chunk,
        raw=raw, threshold=threshold, strict=strict, verify=verify, query=query,
    )  # fmt: skip
    _predict.run(_console(as_json, quiet), options)


@app.command(epilog="Example: evalign serve model/ --port 8000")
def serve(
    model: Folder,
    host: Annotated[
        str, typer.Option(help="The address to listen on; 0.0.0.0 lets other machines in.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes a free one.")] = 8000,
    workers: Annotated[int, typer.Option(min=1, max=256, help="The number of processes.")] = 1,
    max_rows: Annotated[int, typer.Option(min=1, help="The most rows of a request.")] = 10_000,
    max_mb: Annotated[int, typer.Option(min=1, help="The most megabytes of a request.")] = 10,
    timeout: Annotated[float, typer.Option(min=0.1, help="The most seconds of a request.")] = 30.0,
    verify: Verify = None,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Serve a model over HTTP, with a page to try it; requires the extra `serve`.

    POST /predict takes rows as JSON or CSV; GET /model describes the model, /health answers when it works,
    and /openapi.json describes all of it to programs.
    """
    from evalign.cli import serving

    limits = serving.Limits(max_bytes=max_mb << 20, max_rows=max_rows, seconds=timeout)
    options = serving.ServeOptions(
        model=model, host=host, port=port, workers=workers, limits=limits, verify=verify
    )
    serving.run(_console(as_json, quiet), options)


@app.command(epilog="Example: evalign export model/ --onnx model.onnx")
def export(
    model: Folder,
    onnx: Annotated[Path, typer.Option(help="The file to write.", show_default=False)],
    verify: Verify = None,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Write a model as an ONNX file, from its columns to the class; requires the extra `onnx`.

    The file is compared with the model in onnxruntime before it is written. What has no counterpart in ONNX,
    such as a column of dates, is refused.
    """
    from evalign.cli import _export

    options = _export.ExportOptions(model=model, onnx=onnx, verify=verify)
    _export.run(_console(as_json, quiet), options)


@app.command(epilog="Example: evalign evaluate model/ labelled.csv --out report/")
def evaluate(
    model: Folder,
    data: Table,
    target: Annotated[
        str | None, typer.Option(help="The column with the classes.", show_default="as in training")
    ] = None,
    threshold: Threshold = None,
    out: Annotated[Path | None, typer.Option(help="The folder for a report.", show_default="none")] = None,
    form: Format = "html",
    by: By = None,
    query: Query = None,
    verify: Verify = None,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> int:
    """Evaluate a model on labelled rows: metrics with intervals, confusion matrix, calibration."""
    from evalign.cli import _evaluate

    options = _evaluate.EvaluateOptions(
        model=model, data=data, target=target, threshold=threshold, out=out, form=form, by=by,
        verify=verify, query=query,
    )  # fmt: skip
    return _evaluate.run(_console(as_json, quiet), options)


@app.command(epilog="Example: evalign report model/ --out report.html")
def report(
    model: Folder,
    out: Annotated[
        Path | None, typer.Option(help="The file to write.", show_default="report.html in the folder")
    ] = None,
    form: Format = "html",
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Write the report of a model again: in another format, or with a newer evalign."""
    from evalign.cli import _report

    _report.run(_console(as_json, quiet), _report.ReportOptions(model=model, out=out, form=form))


@app.command(epilog="Example: evalign metrics")
def metrics(as_json: Json = False, quiet: Quiet = False, debug: Debug = False) -> None:
    """List the metrics."""
    from evalign.cli import _lists

    _lists.list_metrics(_console(as_json, quiet))


@app.command(epilog="Example: evalign methods")
def methods(as_json: Json = False, quiet: Quiet = False, debug: Debug = False) -> None:
    """List the methods, from the simplest to the most elaborate."""
    from evalign.cli import _lists

    _lists.list_methods(_console(as_json, quiet))


@app.command(epilog="Example: evalign datasets fetch adult")
def datasets(
    action: Annotated[str | None, typer.Argument(help="fetch", show_default=False)] = None,
    name: Annotated[str | None, typer.Argument(help="The name of a dataset.", show_default=False)] = None,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """List the datasets of the papers, or fetch one."""
    from evalign.cli import _datasets

    _datasets.run(_console(as_json, quiet), _datasets.DatasetsOptions(action=action, name=name))


@app.command(epilog="Example: evalign reproduce btg-table4 --scale small")
def reproduce(
    table: Annotated[
        str | None, typer.Argument(help="The name of a table; all are listed without one.")
    ] = None,
    scale: Annotated[
        str, typer.Option(help="small: minutes; medium: a night; full: the paper's protocol.")
    ] = "small",
    jobs: Annotated[int, typer.Option(min=1, help="The number of worker processes.")] = 1,
    seed: Annotated[int, typer.Option(min=0, max=999_999, help="The seed of splits and trials.")] = 0,
    storage: Annotated[
        str | None, typer.Option(help="SQLAlchemy URL of the studies.", show_default="a SQLite file")
    ] = None,
    out: Annotated[
        str | None, typer.Option(help="The folder for the files.", show_default="docs/results")
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option(help="Run only this dataset of the table; repeatable.", show_default="all"),
    ] = None,
    partial: Annotated[
        bool, typer.Option("--partial", help="Write what is done so far, and run nothing.")
    ] = False,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Reproduce a table of the papers, with the published numbers beside ours; an interrupted run resumes."""
    from evalign.cli import _reproduce

    options = _reproduce.ReproduceOptions(
        table=table,
        scale=scale,
        jobs=jobs,
        seed=seed,
        storage=storage,
        out=out,
        data=data or [],
        partial=partial,
    )
    _reproduce.run(_console(as_json, quiet), options)


@cache  # typer reads all signatures, which takes longer than many a command
def build_command() -> Any:
    """The command with all its subcommands."""
    return typer.main.get_command(app)
