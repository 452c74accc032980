"""`evalign export`: a model as an ONNX file, compared with the model itself before it is written."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

from evalign._files import write_file
from evalign.cli._console import Console, blame_run, blame_usage
from evalign.cli._main import RunError
from evalign.cli._paths import check_file
from evalign.tables import TableModel
from evalign.tables.export import build_onnx, compare_graph, draw_rows

#: The number of rows that the file and the model are compared on.
ROWS = 10_000


@dataclass(frozen=True, kw_only=True)
class ExportOptions:
    """The options of `evalign export`."""

    model: Path
    onnx: Path
    verify: Path | None


def run(console: Console, options: ExportOptions) -> None:
    """Convert, compare on drawn rows, and write the file."""
    with blame_usage(out="onnx"):
        check_file(options.onnx)
        model = TableModel.load(options.model, options.verify)
        content = build_onnx(model)
    agreement = compare_graph(content, model, draw_rows(model, ROWS))
    if not agreement.holds:
        raise RunError(f"Nothing was written: onnxruntime predicts otherwise than the model ({agreement}).")
    with blame_run():
        write_file(options.onnx, content)
    console.print_json({"onnx": str(options.onnx), "bytes": len(content), **asdict(agreement)})
    console.print(
        f"{options.onnx}: {len(content):,} bytes. On {agreement.rows:,} drawn rows, probabilities differ by "
        f"at most {agreement.difference:.1e} from the model's, and {agreement.labels} labels differ."
    )
