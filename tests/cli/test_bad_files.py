"""Files that cannot be used: one line that helps, and nothing left behind."""

import gzip

import numpy as np
import pandas as pd
import pytest

from evalign.cli import _main, main
from evalign.tables import TableModel

COMMANDS = ["compare", "fit", "predict", "evaluate"]


@pytest.mark.parametrize("name", COMMANDS)
class TestFiles:
    """Files that are not tables."""

    @pytest.fixture(autouse=True)
    def nothing_is_left(self, left):
        """Only what the test itself wrote may be there in the end."""
        yield
        assert not [path for path in left() if path.startswith(("out", ".")) or "/." in path]

    def test_missing(self, fail, commands, name, tmp_path):
        line = fail(*commands[name](tmp_path / "nowhere.csv"))
        assert line.startswith("evalign: Expected `data` to be a file, but ")
        assert line.endswith("nowhere.csv does not exist.")

    def test_folder(self, fail, commands, name, tmp_path):
        assert "is a folder." in fail(*commands[name](tmp_path))

    def test_empty(self, fail, commands, name, table):
        assert "which is empty." in fail(*commands[name](table("")))

    def test_header_only(self, fail, commands, name, table):
        assert "only a header" in fail(*commands[name](table("visits,churned\n")))

    def test_cut_gz(self, fail, commands, name, tmp_path, files):
        packed = gzip.compress(files.old_csv.read_bytes())
        (tmp_path / "cut.csv.gz").write_bytes(packed[: len(packed) // 2])
        assert "to be a complete gz file" in fail(*commands[name](tmp_path / "cut.csv.gz"))

    def test_cut_parquet(self, fail, commands, name, tmp_path, files):
        whole = files.old_parquet.read_bytes()
        (tmp_path / "cut.parquet").write_bytes(whole[: len(whole) // 2])
        assert "to be a complete Parquet file" in fail(*commands[name](tmp_path / "cut.parquet"))

    def test_changed_parquet(self, fail, commands, name, tmp_path, files):
        content = bytearray(files.old_parquet.read_bytes())
        content[-200:-20] = b"\xff" * 180
        (tmp_path / "bad.parquet").write_bytes(content)
        assert "to be a complete Parquet file" in fail(*commands[name](tmp_path / "bad.parquet"))

    def test_binary(self, fail, commands, name, tmp_path):
        (tmp_path / "noise.csv").write_bytes(np.random.default_rng(0).bytes(5000))
        assert "Expected `data`" in fail(*commands[name](tmp_path / "noise.csv"))

    def test_ragged(self, fail, commands, name, table):
        line = fail(*commands[name](table("visits,churned\n1,yes\n2,no,3\n")))
        assert "with 2 columns in every row, but got 3 in row 3" in line

    def test_debug_shows_where(self, commands, name, tmp_path):
        with pytest.raises(_main.UsageError, match="does not exist"):
            main([*map(str, commands[name](tmp_path / "nowhere.csv")), "--debug"])


def test_an_error_in_a_csv_file_never_hangs_or_aborts(fork, files, tmp_path):
    """What still reads when the interpreter ends may block or crash it: without care, in every third run."""
    header, rows = files.new_csv.read_bytes().split(b"\r\n", 1)
    ragged, lost, out = tmp_path / "ragged.csv", tmp_path / "lost.csv", tmp_path / "out.csv"
    ragged.write_bytes(header + b"\r\n" + rows + b"1;2;3\r\n" + rows * 200)
    lost.write_bytes(header.replace(b"visits", b"Visit") + b"\r\n" + rows * (20_000_000 // len(rows)))
    cases = [
        (["fit", ragged, "--target=churned"], "with 10 columns in every row, but got 3 in row 95"),
        (["predict", files.model, lost], "but got one without 'visits'. Did you mean 'Visit'?"),
    ]
    for command, message in cases:
        for _ in range(2):
            for process in [fork(*command, f"--out={out}"), fork(*command, f"--out={out}")]:
                assert process.wait(60) == 2
                (line,) = process.errors.splitlines()
                assert line.startswith("evalign: Expected `")
                assert message in line
    assert not out.exists()


@pytest.mark.parametrize("name", ["compare", "fit", "evaluate"])
def test_a_target_that_is_not_a_column_gets_suggestions(fail, commands, name, files):
    line = fail(*commands[name](files.old_csv), "--target=Churnd")
    assert "Expected `target` to be a column, but got 'Churnd'" in line
    assert "'churned'" in line
    assert "'email'" in fail(*commands[name](files.old_csv), "--target=xyz")


@pytest.mark.parametrize("name", ["compare", "fit"])
class TestClasses:
    """Targets without classes to learn."""

    def test_one_class(self, fail, commands, name, table):
        line = fail(*commands[name](table("a,churned\n1,yes\n2,yes\n3,yes\n")))
        assert "Expected `churned` with at least two classes, but got only 'yes' in all 3 rows." in line

    def test_missing_label(self, fail, commands, name, table):
        line = fail(*commands[name](table("a,churned\n1,yes\n2,\n3,no\n")))
        assert "1 of 3 missing, the first in row 2" in line

    def test_one_row_of_a_class(self, fail, commands, name, table):
        rows = "".join(f"{k % 7},{'no' if k else 'yes'}\n" for k in range(40))
        line = fail(*commands[name](table(f"a,churned\n{rows}")))
        assert "with at least two rows of every class, but got one of 'yes'. Leave out such rows" in line

    def test_one_row_of_several_classes(self, fail, commands, name, table):
        rows = "".join(f"{k % 7},{'no' if k > 2 else k}\n" for k in range(40))
        line = fail(*commands[name](table(f"a,churned\n{rows}")))
        assert "but got one of '0', and of 2 other classes. Leave out" in line

    def test_few_rows_of_a_class_are_noted(self, run, commands, name, table):
        rows = "".join(f"{k % 7},{'no' if k % 10 else 'yes'}\n" for k in range(60))
        options = {"compare": ["--methods=lightgbm", "--repeats=1", "--jobs=1"], "fit": []}[name]
        ran = run(*commands[name](table(f"a,churned\n{rows}", "few.csv")), *options)
        assert ran.status == 0
        assert "Note: Only 6 of 60 rows are 'yes': differences may well be due to chance.\n" in ran.err

    def test_too_few_rows(self, fail, commands, name, table):
        rows = "".join(f"{k % 5},c{k % 5}\n" for k in range(10))
        line = fail(*commands[name](table(f"a,churned\n{rows}")))
        assert "enough rows to hold out 20% of each class, but got 10 rows of 5 classes" in line

    def test_numbers(self, fail, commands, name, table):
        rows = "".join(f"{k % 7},{k / 7:.3f}\n" for k in range(300))
        assert "300 distinct numbers" in fail(*commands[name](table(f"a,churned\n{rows}")))

    def test_nothing_to_learn_from(self, fail, commands, name, table):
        rows = "".join(f"same,{'yes' if k % 3 else 'no'}\n" for k in range(30))
        assert "with a column to learn from" in fail(*commands[name](table(f"a,churned\n{rows}")))

    def test_positive_of_three(self, fail, commands, name, table):
        rows = "".join(f"{k % 7},c{k % 3}\n" for k in range(60))
        line = fail(*commands[name](table(f"a,churned\n{rows}")), "--positive=c1")
        assert "Expected `positive` only with two classes, but got 3 classes." in line

    def test_unknown_positive(self, fail, commands, name, files):
        line = fail(*commands[name](files.old_csv), "--positive=maybe")
        assert "Expected `positive` to be 'no' or 'yes', but got 'maybe'." in line


def test_the_case_of_positive_does_not_matter(run, commands, files, tmp_path):
    ran = run(*commands["fit"](files.old_csv), "--positive=NO")
    assert ran.status == 0
    assert TableModel.load(tmp_path / "out").labels == ("yes", "no")


@pytest.mark.parametrize("name", ["predict", "evaluate"])
class TestOtherTables:
    """New tables with other columns than the model's."""

    def test_missing_column(self, fail, commands, name, files, tmp_path):
        path = tmp_path / "lost.parquet"
        pd.read_parquet(files.new_parquet).rename(columns={"visits": "Visit"}).to_parquet(path)
        line = fail(*commands[name](path))
        assert "with all columns of the schema, but got one without 'visits'. Did you mean 'Visit'?" in line

    def test_other_types(self, fail, commands, name, files, tmp_path):
        path = tmp_path / "other.parquet"
        pd.read_parquet(files.new_parquet).assign(spent="a lot").to_parquet(path)
        line = fail(*commands[name](path))
        assert "Expected `spent` to contain numbers, but got 'a lot' and 92 more" in line
        assert not list(tmp_path.glob("out*"))


def test_other_types_in_a_later_chunk_leave_no_file(fail, files, tmp_path, left):
    table = pd.read_parquet(files.new_parquet).astype({"spent": object})
    table.loc[60:, "spent"] = "a lot"
    table.astype({"spent": str}).to_parquet(tmp_path / "late.parquet")
    (tmp_path / "p.csv").write_text("older predictions\n")
    out = f"--out={tmp_path / 'p.csv'}"
    line = fail("predict", files.model, tmp_path / "late.parquet", out, "--chunk=30")
    assert "Expected `spent` to contain numbers" in line
    assert left() == ["late.parquet", "p.csv"]
    assert (tmp_path / "p.csv").read_text() == "older predictions\n"


def test_evaluate_of_other_classes(fail, files, tmp_path):
    path = tmp_path / "maybe.parquet"
    pd.read_parquet(files.new_parquet).assign(churned="maybe").to_parquet(path)
    line = fail("evaluate", files.model, path)
    assert "Expected `churned` with classes of the model ('no', 'yes'), but got 'maybe'." in line
