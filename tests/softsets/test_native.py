"""The compiled kernel equals the plain formulas, reads any layout, and leaves alone what it cannot read."""

import importlib.util
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from evalign import MetricLoss, softsets
from evalign.softsets import _native, soft_assign, soft_confusion

ROOT = Path(__file__).parents[2]
#: A source that compiles at once; the real one takes seconds.
STAND_IN = "unsigned source_checksum(void) { return CHECKSUM; }\n"
needs_kernel = pytest.mark.skipif(_native.KERNEL is None, reason="evalign was installed without a compiler")


def logit_confusion(*args, **settings):
    """The matrix of sums, of which `softsets.logit_confusion` gives the shares and the total."""
    shares, total = softsets.logit_confusion(*args, **settings)
    return shares * total


def plain(logits, targets, weight, temperature):
    memberships = soft_assign(logits.softmax(-1), temperature)
    return soft_confusion(memberships, targets, logits.shape[1], weight)


def gradients(function, logits, direction):
    logits = logits.detach().requires_grad_()
    matrix = function(logits)
    (gradient,) = torch.autograd.grad((matrix * direction).sum(), logits)
    return matrix.detach(), gradient


def batch(rows, d, dtype=torch.float64, scale=2.0, seed=0):
    generator = torch.Generator().manual_seed(seed)
    logits = scale * torch.randn(rows, d, generator=generator, dtype=torch.float64)
    targets = torch.randint(0, d, (rows,), generator=generator)
    weight = torch.rand(rows, generator=generator, dtype=torch.float64)
    direction = torch.randn(d, d, generator=generator, dtype=torch.float64)
    return logits.to(dtype), targets, weight.to(dtype), direction.to(dtype)


@needs_kernel
@given(
    rows=st.integers(1, 40),
    d=st.sampled_from([2, 3, 10, 15, 16, 17, 33, 63, 64, 65, 100, 300]),
    temperature=st.sampled_from([1e-3, 0.05, 0.2, 0.3, 0.39, 0.4]),
    scale=st.sampled_from([1e-3, 0.3, 2.0, 20.0]),
    zero=st.booleans(),
    seed=st.integers(0, 2**16),
)
@settings(max_examples=80)
def test_values_and_gradients_of_both_types(rows, d, temperature, scale, zero, seed):
    logits, targets, weight, direction = batch(rows, d, scale=scale, seed=seed)
    if zero:
        weight[::2] = 0
    assert _native.is_native(logits, targets, weight)
    fast = gradients(
        lambda z: logit_confusion(z, targets, weight, temperature=temperature), logits, direction
    )
    slow = gradients(lambda z: plain(z, targets, weight, temperature), logits, direction)
    torch.testing.assert_close(fast[0], slow[0], rtol=1e-9, atol=1e-11)
    torch.testing.assert_close(fast[1], slow[1], rtol=1e-7, atol=1e-8)
    if temperature < 0.05:  # so steep that the rounding of float32 shows in any formula
        return
    # The same numbers in float64, so that no row is on different sides of a knot.
    single = [side.float() for side in (logits, weight, direction)]
    exact = gradients(
        lambda z: logit_confusion(z, targets, single[1].double(), temperature=temperature),
        single[0].double(),
        single[2].double(),
    )
    fast = gradients(
        lambda z: logit_confusion(z, targets, single[1], temperature=temperature), single[0], single[2]
    )
    torch.testing.assert_close(fast[0], exact[0].float(), rtol=1e-4, atol=2e-5)


@needs_kernel
@pytest.mark.parametrize("d", [3, 10, 70, 300])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gradients_of_single_precision(d, dtype):
    logits, targets, weight, direction = batch(50, d, dtype)
    _, fast = gradients(lambda z: logit_confusion(z, targets, weight), logits, direction)
    _, exact = gradients(
        lambda z: plain(z, targets, weight.double(), 0.2), logits.double(), direction.double()
    )
    torch.testing.assert_close(fast.double(), exact, rtol=1e-4, atol=1e-5 if dtype == torch.float32 else 1e-9)


@needs_kernel
@pytest.mark.parametrize("d", [2, 5, 21, 80])
@pytest.mark.parametrize("layout", ["contiguous", "channels last", "transposed", "sliced", "expanded"])
def test_any_layout_without_a_copy(d, layout):
    logits = torch.randn(3, d, 5, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    if layout == "channels last":
        logits = logits.to(memory_format=torch.channels_last)
    elif layout == "transposed":
        logits = logits.transpose(0, 3).contiguous().transpose(0, 3)
    elif layout == "sliced":
        logits = torch.cat([logits, logits], 1)[:, ::2]
    elif layout == "expanded":
        logits = logits[:1].expand(3, -1, -1, -1)
    rows = logits.flatten(2).movedim(1, -1)
    _, targets, weight, direction = batch(105, d)
    assert _native.is_native(rows, targets, weight)
    fast = gradients(lambda z: logit_confusion(z, targets, weight), rows, direction)
    slow = gradients(lambda z: plain(z.flatten(0, 1), targets, weight, 0.2), rows, direction)
    torch.testing.assert_close(fast, slow)


@needs_kernel
def test_dense_logits_reach_the_kernel_as_they_are(monkeypatch):
    logits = torch.randn(2, 5, 4, 6, requires_grad=True)
    targets = torch.randint(0, 5, (2, 4, 6))
    seen = []

    def spy(step, logits, *rest):
        seen.append((logits.data_ptr(), logits.stride()))
        return confusion(step, logits, *rest)

    confusion = _native.confusion
    monkeypatch.setattr(_native, "confusion", spy)
    MetricLoss("f1")(logits, targets).backward()
    assert seen == [(logits.data_ptr(), (120, 1, 24))]
    assert logits.grad.is_contiguous()
    again = logits.detach().movedim(1, -1).reshape(-1, 5).requires_grad_()
    (1 - MetricLoss("f1").metric(plain(again, targets.reshape(-1), torch.ones(48), 0.2))).backward()
    torch.testing.assert_close(logits.grad.movedim(1, -1).reshape(-1, 5), again.grad)


@needs_kernel
@pytest.mark.parametrize("d", [2, 7, 100])
def test_the_number_of_threads_changes_nothing(d, monkeypatch):
    logits, targets, weight, direction = batch(331, d)
    results = []
    monkeypatch.setattr(_native, "GRAIN", 1)
    for threads in (1, 3):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        results.append(gradients(lambda z: logit_confusion(z, targets, weight), logits, direction))
    torch.testing.assert_close(results[0], results[1], rtol=1e-12, atol=1e-15)


@needs_kernel
@pytest.mark.parametrize("rows", [5, 400])
@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_one_wrong_logit_in_any_thread_is_seen(rows, bad, monkeypatch):
    monkeypatch.setattr(_native, "GRAIN", 1)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    for d in (2, 5, 90):
        logits, targets, weight, _ = batch(rows, d)
        logits[-1, -1] = bad
        assert logit_confusion(logits, targets, weight).isnan().all()


@needs_kernel
@pytest.mark.parametrize("d", [3, 20, 90])
@pytest.mark.parametrize("tied", [2, 3])
def test_tied_logits_share_the_gradient_of_the_threshold(d, tied):
    """The mean over the choices of the two largest, each by a logit that is larger by very little."""
    logits = torch.randn(1, d, dtype=torch.float64, generator=torch.Generator().manual_seed(2)) - 9
    logits[0, :tied] = 1.0
    targets, weight, direction = torch.tensor([1]), torch.ones(1).double(), batch(1, d)[3]
    _, gradient = gradients(lambda z: logit_confusion(z, targets, weight), logits, direction)
    limits = []
    for first in range(tied):
        for second in set(range(tied)) - {first}:
            near = logits.clone()
            near[0, first] += 2e-9
            near[0, second] += 1e-9
            limits.append(gradients(lambda z: plain(z, targets, weight, 0.2), near, direction)[1])
    torch.testing.assert_close(gradient, torch.stack(limits).mean(0), rtol=1e-5, atol=1e-7)


@needs_kernel
@pytest.mark.parametrize("target", [-1, 5])
def test_targets_outside_the_classes_are_an_error(target):
    with pytest.raises(ValueError, match=rf"Expected `targets` in 0\.\.4, but got {target}"):
        logit_confusion(torch.zeros(3, 5), torch.tensor([0, target, 1]), torch.ones(3))


@needs_kernel
def test_what_the_kernel_cannot_read():
    logits, targets, weight, _ = batch(4, 3, torch.float32)
    assert _native.is_native(logits, targets, weight)
    assert not _native.is_native(logits.bfloat16(), targets, weight)
    assert not _native.is_native(logits, targets.int(), weight)
    assert not _native.is_native(logits, targets, weight.double())
    assert not _native.is_native(logits, targets[:3], weight)
    assert not _native.is_native(logits.to("meta"), targets.to("meta"), weight.to("meta"))
    assert not _native.is_native(torch.complex(logits, logits).conj().imag, targets, weight)
    assert not _native.is_plain(torch._efficientzerotensor(3))
    with torch._subclasses.FakeTensorMode():
        assert not _native.is_native(torch.zeros(4, 3), torch.zeros(4, dtype=torch.long), torch.ones(4))


@needs_kernel
@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning", "ignore:.*torch.jit:DeprecationWarning")
def test_a_trace_records_operations():
    logits, targets, weight, _ = batch(4, 3)
    traced = torch.jit.trace(lambda z: logit_confusion(z, targets, weight), logits, check_trace=False)
    torch.testing.assert_close(traced(logits + 1), logit_confusion(logits + 1, targets, weight))
    torch.testing.assert_close(traced(-logits), logit_confusion(-logits, targets, weight))


@pytest.mark.parametrize("kernel", [True, False])
@pytest.mark.parametrize("d", [2, 4])
def test_a_vectorised_jacobian(kernel, d, monkeypatch):
    if not kernel:
        monkeypatch.setattr(_native, "KERNEL", None)
    logits, targets, weight, _ = batch(5, d)
    fast, slow = (
        torch.autograd.functional.jacobian(
            lambda z: logit_confusion(z, targets, weight), logits, vectorize=vectorize
        )
        for vectorize in (True, False)
    )
    torch.testing.assert_close(fast, slow)


@needs_kernel
def test_logits_that_changed_after_the_forward_pass_are_an_error():
    logits, targets, weight, _ = batch(5, 3)
    logits = logits.requires_grad_() * 1
    matrix = logit_confusion(logits, targets, weight)
    logits.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        matrix.trace().backward()


@needs_kernel
def test_the_variable_switches_the_kernel_off(monkeypatch):
    library = _native.SOURCE.with_name("libnative.so")
    assert _native.load_kernel(library) is not None
    monkeypatch.setenv("EVALIGN_NATIVE", "0")
    assert _native.load_kernel(library) is None


@pytest.fixture(scope="module")
def hook():
    pytest.importorskip("hatchling")
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_kernel_of_another_source_is_not_loaded(hook, tmp_path, monkeypatch):
    source, library = tmp_path / "native.c", tmp_path / "libnative.so"
    source.write_text(STAND_IN + "int confusion(void) { return 7; }\n")
    if not hook.compile_kernel(source, library):
        pytest.skip("there is no compiler")
    monkeypatch.setattr(_native, "SOURCE", source)
    assert _native.load_kernel(library)() == 7
    assert sorted(tmp_path.iterdir()) == [library, source]
    source.write_text(source.read_text() + "// changed")
    assert _native.load_kernel(library) is None


@pytest.mark.parametrize("compiler", ["false", "/no/such/compiler"])
def test_without_a_compiler_no_kernel_is_left(hook, compiler, tmp_path, monkeypatch):
    monkeypatch.setenv("CC", compiler)
    library = tmp_path / "libnative.so"
    library.write_text("an older kernel")
    assert not hook.compile_kernel(_native.SOURCE, library)
    assert list(tmp_path.iterdir()) == []
    assert _native.load_kernel(library) is None


@pytest.mark.parametrize("compiler", ["cc", "false"])
def test_a_wheel_with_the_kernel_is_for_this_platform_only(hook, compiler, tmp_path, monkeypatch):
    copy = tmp_path / "project"
    (copy / "src/evalign/softsets").mkdir(parents=True)
    for name in ("pyproject.toml", "README.md", "LICENSE", "hatch_build.py"):
        (copy / name).write_bytes((ROOT / name).read_bytes())
    (copy / "src/evalign/softsets/native.c").write_text(STAND_IN)
    (copy / "src/evalign/__init__.py").write_text("")
    (copy / ".gitignore").write_text((ROOT / ".gitignore").read_text())
    code = f"import hatchling.build as build; print(build.build_wheel({str(tmp_path)!r}))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=copy, env={**os.environ, "CC": compiler}, text=True,
        capture_output=True, check=True,
    )  # fmt: skip
    wheel = tmp_path / done.stdout.split()[-1]
    names = zipfile.ZipFile(wheel).namelist()
    if compiler == "cc" and (copy / "src/evalign/softsets/libnative.so").exists():
        assert "evalign/softsets/libnative.so" in names
        assert "-py3-none-" in wheel.name
        assert not wheel.name.endswith("-any.whl")
    else:
        assert "evalign/softsets/libnative.so" not in names
        assert wheel.name.endswith("-py3-none-any.whl")
