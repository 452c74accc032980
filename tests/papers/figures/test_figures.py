"""Figures: their formulas, the claims about them, and how they are written."""

import csv
import io
import math
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from evalign.losses import SurrogateFBetaLoss
from evalign.metrics import fbeta
from evalign.papers import FIGURES, MissingDataError, find, reproduce
from evalign.papers._figure_page import to_csv, to_markdown
from evalign.papers.figures import Claim, Line, Panel, PaperFigure, draw
from evalign.papers.figures import _lee_claims as claims
from evalign.papers.figures import _lee_panels as panels
from evalign.papers.figures._figure import correlation
from evalign.papers.figures._lee import COLUMNS, FASHION, PLANES
from evalign.papers.studies import Cell, StudyPlan, StudyResults
from evalign.papers.tables import PaperData

PNG = b"\x89PNG\r\n\x1a\n"
NOTHING = StudyResults(StudyPlan(FIGURES["lee-figure1"].study, "small", 0, ()), {}, {})


def curves(name, epoch, number):
    """Made-up curves: loss and F-beta are on a line for surrogates, on a parabola for soft losses."""
    score = epoch / 40 + number / 1000
    loss = 2 - 3 * score if name.startswith("surrogate") else (score - 0.25) ** 2
    values = {column.name: score for column in COLUMNS}
    return {**values, "running loss": loss, "train loss": -score}


@pytest.fixture
def results():
    """A study with made-up curves: 20 epochs, two repetitions."""
    plan = StudyPlan(FASHION, "small", 0, (FASHION.data[0].name,))
    cells = {}
    for data, row in plan.cells():
        runs = [[curves(row.name, epoch, number) for epoch in range(1, 21)] for number in (0, 1)]
        by_column = [{key: [epoch[key] for epoch in run] for key in run[0]} for run in runs]
        cells[data.name, row.name] = Cell([{}, {}], curves=by_column)
    return StudyResults(plan, cells, {})


def change(results, **columns):
    """The same study with other curves for a column of a row, `row__column=function of the old values`."""
    cells = dict(results.cells)
    for name, function in columns.items():
        row, column = (word.replace("_", " ") for word in name.split("__"))
        key = (FASHION.data[0].name, row)
        curves = [{**run, column: function(np.array(run[column])).tolist()} for run in cells[key].curves]
        cells[key] = replace(cells[key], curves=curves)
    return replace(results, cells=cells)


def test_figure_1_equals_the_formulas_of_the_paper():
    """Section 4: -log(1 - q), q and -log(1 - q); then -log(1 - q), q and log(1 + q) at beta = 1, P = 0.5."""
    a, b, c = ({line.series: line for line in panel.lines} for panel in panels.shapes(NOTHING))
    q = np.array(a["BCE"].x)
    assert (q[0], q[-1], len(q)) == (0, 0.99, 100)
    for series, wanted in (("BCE", -np.log(1 - q)), ("MAE", q), ("surrogate", -np.log(1 - q))):
        np.testing.assert_allclose(a[series].y, wanted, atol=1e-9)
    for series, wanted in (("BCE", -np.log(1 - q)), ("MAE", q), ("surrogate F1", np.log(1 + q))):
        np.testing.assert_allclose(b[series].y, wanted, atol=1e-9)
    for panel, odds in ((b, 1.0), (c, 1 / 9)):  # P / (1 - P)
        for beta in (0.5, 1, 2, 3):
            k = beta**2 * odds
            np.testing.assert_allclose(panel[f"surrogate F{beta:g}"].y, np.log(k + q) - np.log(k), atol=1e-9)
    assert all(claim.holds for claim in claims.shapes_claims(NOTHING))


@pytest.mark.parametrize("beta", panels.BETAS)
def test_the_decision_boundary_of_the_surrogate(beta):
    """For rows that are positive with probability e its minimum is at f = e beta^2 P / (P - e).

    That is 0.5 for e = P / (1 + 2 beta^2 P).
    """
    rate = panels.RATE
    edge = rate / (1 + 2 * beta**2 * rate)
    f = torch.linspace(0.001, 0.999, 999, dtype=torch.float64)
    loss = SurrogateFBetaLoss(beta, rate)
    both = [torch.stack([loss(p.logit().view(1), torch.tensor([float(y)])) for p in f]) for y in (0, 1)]
    for chance, side in ((edge * 0.9, -1), (edge, 0), (edge * 1.1, 1)):
        best = float(f[((1 - chance) * both[0] + chance * both[1]).argmin()])
        assert np.sign(round(best - 0.5, 2)) == side


def test_correlation_is_pearsons():
    x, y = np.random.default_rng(0).normal(size=(2, 50))
    assert correlation(x, y) == pytest.approx(np.corrcoef(x, y)[0, 1], abs=1e-12)
    assert correlation(x, 3 - 2 * x) == pytest.approx(-1, abs=1e-12)
    assert math.isnan(correlation(x, np.ones(50)))


def test_scatter_has_the_loss_and_the_score_of_the_same_beta(results):
    scatter = panels.scatter(results, "surrogate")
    assert [panel.title[-3:].strip(" =") for panel in scatter] == ["0.5", "1", "2", "3"]
    for panel, beta in zip(scatter, panels.BETAS, strict=True):
        assert [(line.series, line.repetition) for line in panel.lines] == [
            (f"surrogate F{beta:g}", 1), (f"surrogate F{beta:g}", 2),
        ]  # fmt: skip
        np.testing.assert_allclose(panel.lines[0].y, np.arange(1, 21) / 40)
        np.testing.assert_allclose(panel.lines[0].x, 2 - 3 * np.arange(1, 21) / 40)


def test_the_claim_of_linearity_holds_only_beyond_0_9(results):
    claim, *_ = claims.scatter_claims(results, "surrogate", linear=True)
    assert claim.holds
    assert "-1.000 for beta = 0.5, 1, 2, 3; 8 of all 8 runs are at or below -0.9." in claim.here
    noise = np.random.default_rng(0).normal(0, 0.3, 20)
    worse = change(results, surrogate_F2__running_loss=lambda y: y + noise)
    claim, _, after = claims.scatter_claims(worse, "surrogate", linear=True)
    assert (claim.holds, after.holds) == (False, True)
    assert "6 of all 8 runs are at or below -0.9." in claim.here
    # For the other loss the paper claims the contrary, and a parabola is not a line.
    printed, weighted = claims.scatter_claims(results, "soft", linear=False)
    assert (printed.holds, weighted.holds) == (True, True)
    straight = {f"soft_F{beta:g}__running_loss": lambda y: -np.arange(len(y)) for beta in panels.BETAS[1:]}
    printed, weighted = claims.scatter_claims(change(results, **straight), "soft", linear=False)
    assert (printed.holds, weighted.holds) == (False, True)  # three of four
    skipped = {place: Cell() if "weighted" in place[1] else cell for place, cell in results.cells.items()}
    assert claims.scatter_claims(replace(results, cells=skipped), "soft", linear=False)[0].holds
    assert len(claims.scatter_claims(replace(results, cells=skipped), "soft", linear=False)) == 1


def test_coefficients_of_all_repetitions_and_betas(results):
    table = panels.scatter_numbers(change(results, MAE__running_F1=np.ones_like), "surrogate")
    heads = [word.strip() for word in table[0].split("|")[1:-1]]
    assert heads[1:5] == ["F0.5 score", "F1 score", "F2 score", "F3 score"]
    assert heads[5:] == [
        "bold, log of the score", "bold, balanced classes",
        "bold, after each epoch", "bold, after each epoch, balanced classes",
    ]  # fmt: skip
    assert all(line.count("|") == 10 for line in table[:8])
    assert table[3].startswith("| surrogate F1 | -1.00 (-1.00 to -1.00) | **-1.00 (-1.00 to -1.00)** |")
    assert [line.split("|")[1].strip() for line in table[2:8]] == [
        "surrogate F0.5", "surrogate F1", "surrogate F2", "surrogate F3", "MAE (extra)", "BCE (extra)",
    ]  # fmt: skip
    assert table[6].split("|")[3].strip() == "constant"


def test_coefficients_of_logarithms_and_after_epochs():
    score = np.array([0.0, 0.1, 0.4, 0.3])
    running = {"running loss": [5.0, *-np.log(score[1:])], "running F2": score.tolist()}
    after = {"train loss": [1.0, 2.0, 3.0, 5.0], "train F2": [0.4, 0.3, 0.2, 0.0]}
    cell = Cell([{}], curves=[{**running, **after}])
    assert panels.coefficients(cell, 2.0, log=True) == [pytest.approx(-1, abs=1e-12)]
    (plain,) = panels.coefficients(cell, 2.0)
    assert plain == pytest.approx(np.corrcoef(cell.curves[0]["running loss"], score)[0, 1], abs=1e-12)
    assert panels.coefficients(cell, 2.0, source="train") == [pytest.approx(-1, abs=1e-12)]
    never = Cell([{}], curves=[{"running loss": [1.0, 2.0], "running F2": [0.0, 0.0]}])
    assert math.isnan(panels.coefficients(never, 2.0, log=True)[0])


def test_coefficients_with_the_score_of_balanced_classes(results):
    # 10 positives and 90 negatives, 8 and 9 of them predicted as positive, correspond to 90 and 90, 72 and 9.
    matrix = torch.tensor([[81.0, 9.0], [18.0, 72.0]])
    score = panels.balanced_fbeta(8 / 17, 0.8, 2.0)
    assert score == pytest.approx(float(fbeta(2)(matrix)), abs=1e-6)
    recalls = [0.2, 0.0, 0.8, 0.5]
    precisions = [0.3, 0.0, 0.4, 0.6]
    scores = [panels.balanced_fbeta(p, r, 1.0) for p, r in zip(precisions, recalls, strict=True)]
    assert scores[1] == 0
    curves = {"running F1": recalls, "running precision": precisions, "running recall": recalls}
    cell = Cell([{}], curves=[{**curves, "running loss": [-one for one in scores]}])
    assert panels.coefficients(cell, 1.0, balanced=True) == [pytest.approx(-1, abs=1e-12)]
    assert panels.coefficients(cell, 1.0)[0] > -0.999
    _, balanced, _ = claims.scatter_claims(results, "surrogate", linear=True)
    cells = {name: cell for name, _, cell in panels.cells_with_curves(results)}
    first = [
        panels.coefficients(cells[f"surrogate F{beta:g}"], beta, balanced=True)[0] for beta in panels.BETAS
    ]
    assert f"are {', '.join(f'{value:.3f}' for value in first)} for" in balanced.here
    assert balanced.holds == (max(first) <= -0.9)


def test_convergence_draws_the_median_of_the_repetitions(results):
    first, second, third = panels.convergence(results)
    assert [panel.y_label for panel in (first, second, third)] == [
        "train F1", "validation F1", "test accuracy",
    ]  # fmt: skip
    lines = [line for line in first.lines if line.series == "soft F2"]
    assert [line.repetition for line in lines] == [0, 1, 2]
    np.testing.assert_allclose(lines[0].y, (np.array(lines[1].y) + lines[2].y) / 2)
    assert lines[0].x == tuple(range(1, 21))


def test_claims_about_a_loss_that_is_stuck_are_not_judged(results):
    stuck = change(results, surrogate_F2__train_F1=lambda y: np.full_like(y, 0.182))
    for claim in claims.scatter_claims(stuck, "surrogate", linear=True):
        assert claim.holds is None
        assert claim.here.endswith("Stuck at one prediction for all rows: surrogate F2.")
    assert all(claim.holds is not None for claim in claims.scatter_claims(stuck, "soft", linear=False))
    about_surrogates, about_bce = claims.convergence_claims(stuck)
    assert (about_surrogates.holds, about_bce.holds) == (None, False)
    figure = replace(FIGURES["lee-figure3"], claims=lambda _: [about_surrogates])
    assert "| cannot be judged |" in to_markdown(figure, results, "figure.png")


def test_the_claims_of_figure_2(results):
    def holds(**columns):
        return [claim.holds for claim in claims.convergence_claims(change(results, **columns))]

    assert holds() == [False, False]  # all losses are alike: none is slower, BCE reaches 0.5
    late = {"surrogate_F2__train_F1": lambda y: y**0.2, "surrogate_F3__train_F1": lambda y: y**0.2}
    assert holds(**late) == [False, False]
    late = {"surrogate_F2__train_F1": lambda y: y**8, "surrogate_F3__train_F1": lambda y: y**8}
    assert holds(**late, BCE__train_F1=lambda y: y * 0.1) == [True, True]


def test_the_claims_of_figure_5(results):
    def find_claims(**columns):
        return claims.accuracy_claims(change(results, **columns))

    # All losses are alike, and the first one is a surrogate.
    assert [claim.holds for claim in find_claims()] == [False, False, True]
    slow = {"MAE__train_F1": lambda y: y**8, "BCE__train_F1": lambda y: y**8}
    best = {"soft_F1__test_accuracy": lambda y: y + 0.3, "soft_F3__validation_F1": lambda y: y + 0.1}
    for recall, trivial in ((0.0, True), (0.5, False)):
        here = find_claims(**slow, **best, soft_F1__train_recall=lambda y, r=recall: np.full_like(y, r))
        assert [claim.holds for claim in here] == [True, trivial, False]
        assert "soft F1 with" in here[1].here
        assert "soft F3 with 0.60" in here[2].here


@pytest.mark.parametrize("name", ["lee-figure2", "lee-figure3"])
def test_curves_are_drawn(name, results):
    figure = FIGURES[name]
    assert draw(figure.kind, figure.panels(results)).startswith(PNG)


def test_losses_that_were_not_trained_have_no_row_of_panels(results):
    every = panels.convergence(results)
    kept = [
        replace(panel, lines=tuple(line for line in panel.lines if not line.series.startswith("weighted")))
        for panel in every
    ]
    heights = [Image.open(io.BytesIO(draw("convergence", one))).height for one in (every, kept)]
    assert heights[1] == heights[0] * 3 / 4


def test_one_repetition_is_not_described_as_several(results):
    single = {key: replace(cell, curves=cell.curves[:1]) for key, cell in results.cells.items()}
    single = replace(results, cells=single)
    for number in ("2", "3"):
        figure = FIGURES[f"lee-figure{number}"]
        assert "repetitions" in figure.numbers(results)[-1]
        assert "repetition" not in figure.numbers(single)[-1]


def test_every_figure_has_runs_numbers_and_claims(results):
    for name, figure in FIGURES.items():
        if name.startswith("lee-") and name != "lee-figure1":
            assert figure.study is (FASHION if int(name[-1]) < 5 else PLANES)
            assert figure.kind == ("convergence" if name[-1] in "25" else "scatter")
            assert figure.claims(results)
            assert len(figure.numbers(results)) > 6
    lines = [FIGURES[f"lee-figure{number}"].panels(results)[1].lines[0].series for number in (3, 4, 6, 7)]
    assert lines == ["surrogate F1", "soft F1", "surrogate F1", "soft F1"]


def test_a_constant_path_is_drawn():
    line = Line("soft F1", (1.0, 0.9), (0.0, 0.0), 1)
    assert draw("scatter", [Panel("t", "x", "y", (line,))] * 4).startswith(PNG)


def test_failed_runs_are_reported_and_nothing_is_claimed(results):
    figure = FIGURES["lee-figure3"]
    key = (FASHION.data[0].name, "surrogate F2")
    lost = replace(results, cells={**results.cells, key: Cell(errors=["ValueError: no"])})
    text = to_markdown(figure, lost, "p.png")
    assert "Some runs are unfinished or failed" in text
    assert "- Failed: surrogate F2 on fashion_mnist_tshirt: ValueError: no." in text
    assert "Holds here" not in text
    assert "surrogate F2" not in to_csv(figure, lost, figure.panels(lost))
    assert draw(figure.kind, figure.panels(lost)).startswith(PNG)


def test_figures_of_formulas_need_neither_data_nor_storage(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    files = reproduce("lee-figure1", out="out").files
    assert [str(file) for file in files] == [f"out/lee-figure1-small.{end}" for end in ("md", "csv", "png")]
    assert [file.name for file in tmp_path.iterdir()] == ["out"]
    page = (tmp_path / "out" / "lee-figure1-small.md").read_text()
    assert "`evalign reproduce lee-figure1 --scale small --seed 0`" in page
    assert "![the shapes of the losses](lee-figure1-small.png)" in page
    assert "- Date: 20" in page
    text = (tmp_path / "out" / "lee-figure1-small.csv").read_text()
    rows = list(csv.DictReader(text.splitlines()))
    assert len(rows) == 100 * (3 + 6 + 6)
    half = next(row for row in rows if row["series"] == "surrogate F1" and float(row["x"]) == 0.5)
    assert float(half["y"]) == pytest.approx(math.log(1.5), abs=1e-5)  # (b), P = 0.5
    assert (tmp_path / "out" / "lee-figure1-small.png").read_bytes().startswith(PNG)


def test_figures_by_name():
    assert list(FIGURES) == [*(f"lee-figure{number}" for number in range(1, 8)), "when-it-pays"]
    assert all(find(name) is figure for name, figure in FIGURES.items())
    with pytest.raises(ValueError, match="but got 'lee-figur3'. Did you mean .*'lee-figure3'"):
        find("lee-figur3")


def test_the_error_for_a_figure_without_its_data_explains_what_to_do(tmp_path, monkeypatch, run):
    from evalign.papers.data import _parts

    def load(name):
        raise FileNotFoundError(f"Put {name} there.")

    monkeypatch.setattr(_parts, "load", load)
    with pytest.raises(MissingDataError, match="Put fashion_mnist_tshirt there."):
        run("lee-figure3")
    assert not (tmp_path / "out").exists()


def test_figures_share_the_runs_of_their_study(photos, run, trials):
    study = replace(PLANES, name="toy", data=(PaperData("cifar10_airplane", "Toy", "darknet_tiny"),))
    scale = replace(PLANES.small, trials=1, settings={**PLANES.small.settings, "max_epochs": 2})
    study = replace(study, rows=(*study.rows[:1], *study.rows[-1:]), small=scale)
    first = replace(FIGURES["lee-figure6"], study=study, claims=lambda _: [])
    files = run(first).files
    assert [file.suffix for file in files] == [".md", ".csv", ".png"]
    assert len(trials()) == 2
    second = PaperFigure(
        "lee-other", "t", "c", "scatter", study, first.panels, lambda _: ["| 1 |"],
        lambda _: [Claim("It rises.", "It does.", True)],
    )  # fmt: skip
    page = run(second).files[0].read_text()
    assert "| It rises. | It does. | yes |" in page
    assert len(trials()) == 2  # none was run again
    rows = list(csv.DictReader(files[1].read_text().splitlines()))
    assert [(row["series"], row["point"]) for row in rows] == [("surrogate F0.5", at) for at in "12"]
    assert "max_epochs 2" in files[0].read_text()


def test_matplotlib_is_imported_only_to_draw():
    code = "import sys, evalign.papers; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
