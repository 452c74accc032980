"""Wrong options and arguments: one line that helps, and no text is ever executed."""

import pytest

FIT = ["--target=churned", "--method=lightgbm"]

EVIL = "__import__('os').system('touch {}')"


@pytest.mark.parametrize("name", ["compare", "fit"])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--metric=f11"], "Did you mean 'f1'?"),
        (["--metric="], "Expected `metric`"),
        (["--metric=2*tp +"], "Expected `metric`"),
        (["--metric=(" * 500], "Expected `metric`"),
        (["--metric=" + "-" * 5000 + "tp"], "Expected `metric`"),
        (["--metric=9**9**9**9*tp"], "Expected `metric`"),
        (["--metric=f1(average=None)"], "Expected `metric`"),
        (["--metric=f1(beta=2)"], "Expected `metric`"),
        (["--constraint=precision>0.9"], "to be a metric, >= or <=, and a number"),
        (["--constraint=precision>=high"], "to be a known name, but got 'high'"),
        (["--constraint=precision>=1.5"], "Expected `bound` in (0, 1]"),
        (["--constraint=pprecision>=0.9"], "Did you mean 'precision'"),
        (["--metric=f1_macro"], "Did you mean \"f1(average='macro')\"?"),
        (["--metric=recall['yess']"], "to be one of ['no', 'yes'], but got 'yess'. Did you mean 'yes'?"),
        (["--constraint=recall['Yes'] >= 0.5"], "Did you mean 'yes'?"),
        (["--methods=lightgb"], "Did you mean 'lightgbm'"),
        (["--methods=lightgbm,lightgbm"], "to be different names"),
        (["--methods=,"], "Expected `methods`"),
        (["--seed=-1"], "--seed"),
        (["--seed=4294967296"], "--seed"),
        (["--seed=one"], "--seed"),
        (["--jobs=0"], "--jobs"),
        (["--bogus"], "--bogus"),
    ],
)  # fmt: skip
def test_wrong_options(fail, files, tmp_path, name, options, message):
    out = tmp_path / "out"
    assert message in fail(name, files.old_csv, "--target=churned", f"--out={out}", *options)
    assert not out.exists()


@pytest.mark.parametrize(
    "text", [EVIL, "f1(" + EVIL + ")", "tp + " + EVIL, "(lambda: {})()", "tp.__class__{}"]
)
@pytest.mark.parametrize("option", ["--metric={}", "--constraint={}>=0.5"])
def test_no_text_is_executed(fail, files, tmp_path, left, text, option):
    canary = tmp_path / "canary"
    argument = option.format(text.format(canary))
    assert "Expected `" in fail("fit", files.old_csv, *FIT, f"--out={tmp_path / 'm'}", argument)
    assert left() == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["compare", "DATA", "--target=churned", "--test-size=0"], "Expected `test_size` in (0, 1)"),
        (["compare", "DATA", "--target=churned", "--test-size=nan"], "Expected `test_size` in (0, 1)"),
        (["compare", "DATA", "--target=churned", "--repeats=0"], "--repeats"),
        (["fit", "DATA", "--target=churned", "--out=m", "--folds=1"], "--folds"),
        (["fit", "DATA", "--target=churned", "--out=m", "--time-limit=soon"], "Expected `time_limit`"),
        (["fit", "DATA", *FIT, "--out=m", "--time-limit=5m"], "only with the method auto"),
        (["fit", "DATA", "--target=churned", "--out=m", "--method=lightgb"], "Did you mean 'lightgbm'"),
        (["fit", "DATA", *FIT, "--out=m", "--methods=lightgbm"], "only with the method auto"),
        (["fit", "DATA", "--target=churned"], "--out"),
        (["fit", "DATA", "--out=m"], "--target"),
        (["fit"], "See --help."),
        (["predict", "MODEL", "DATA", "--json"], "both go to standard output"),
        (["predict", "MODEL", "DATA", "--chunk=0"], "--chunk"),
        (["predict", "MODEL", "DATA", "--out=p.txt"], "to end in .csv"),
        (["predict", "MODEL", "DATA", "--out=p.csv", "--keep=citi"], "Did you mean 'city'?"),
        (["predict", "MODEL", "DATA", "--out=nowhere/p.csv"], "in a folder that exists"),
        (["predict", "nowhere", "DATA"], "to be the folder of a model, but got nowhere without model.json"),
        (["predict", "DATA", "DATA"], "to be the folder of a model"),
        (["evaluate", "nowhere", "DATA"], "to be the folder of a model"),
        (["evaluate", "MODEL", "DATA", "--threshold=1.5"], "Expected `threshold` in [0, 1], but got 1.5."),
        (["evaluate", "MODEL", "DATA", "--threshold=nan"], "Expected `threshold` in [0, 1]"),
        (["evaluate", "MODEL", "DATA", "--threshold=low"], "--threshold"),
        (["report", "nowhere"], "to be the folder of a model"),
        (["report", "MODEL", "--out=nowhere/r.html"], "in a folder that exists"),
        (["report", "MODEL", "--out=."], "to be a file"),
        (["datasets", "get", "adult"], "Expected `fetch NAME`, but got get adult."),
        (["datasets", "fetch"], "Expected `fetch NAME`, but got fetch."),
        (["datasets", "fetch", "adlt"], "Did you mean 'adult'?"),
        (["reproduce", "east-tabel1"], "Did you mean 'east-table1'"),
        (["reproduce", "east-table1", "--scale=huge"], "Expected `scale` to be one of small, medium, full"),
        (["reproduce", "east-table1", "--seed=1000000"], "--seed"),
        (["metrics", "f1"], "See --help."),
        (["methods", "--bogus"], "See --help."),
        (["fits"], "No such command 'fits'"),
    ],
)  # fmt: skip
def test_wrong_arguments(fail, files, tmp_path, left, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    names = {"DATA": files.old_csv, "MODEL": files.model}
    assert message in fail(*(names.get(one, one) for one in arguments))
    assert left() == []
