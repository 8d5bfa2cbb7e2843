"""Every example runs, as its page says, and what it trains learns."""

import sys
from pathlib import Path

import pytest

from commands import ROOT
from tests.rotating.shards import environment_of, run

LAZY = {"PT_HPU_LAZY_MODE": "1"}
# Arguments of each call, and its environment.
CALLS = {
    "examples/digits.py": [
        (("--epochs", "3"), {}),
        (("--epochs", "3"), LAZY),
        (("--device", "cpu", "--epochs", "2"), {}),
    ],
    "examples/gpt_chars.py": [(("--steps", "60"), {}), (("--steps", "60"), LAZY)],
    "examples/graph_inference.py": [(("--repeat", "2"), {}), (("--manual", "--repeat", "2"), {})],
    "examples/graph_training.py": [((), {}), (("--cacher",), {}), (("--compile",), {})],
    "examples/custom_op/smooth_relu.py": [((), {}), ((), LAZY)],
    "examples/tpc/train.py": [((), {}), ((), LAZY)],
    "examples/lightning/digits.py": [((), {}), (("--epochs", "6"), LAZY)],
    "examples/lightning/graphs.py": [((), {})],
    "examples/demo.py": [(("--epochs", "8", "--stretches", "3", "--steps", "40"), {})],
}
# Parts of others; `peer` is the demo's. The lane vllm runs `serve_llm`, for which vLLM has to be there.
PARTS = {"examples/custom_op/setup.py", "examples/lightning/model.py", "examples/peer.py", "examples/serve_llm.py"}
PARTS |= {"examples/tpc/operators.py", "examples/tpc/serve.py"}  # of `train`; the lane vllm runs `serve`
ALL = [(path, arguments, variables) for path, calls in CALLS.items() for arguments, variables in calls]


def name(call):
    path, arguments, variables = call
    return " ".join((Path(path).relative_to("examples").with_suffix("").as_posix(), *arguments, *variables))


@pytest.mark.parametrize("call", ALL, ids=name)
def test_example(call, tmp_path):
    path, arguments, variables = call
    if "lightning" in path:
        pytest.importorskip("lightning")
        command = [sys.executable, str(ROOT / path), *arguments]
        command += ["--folder", str(tmp_path)] if path.endswith("digits.py") else []
    else:
        command = [sys.executable, "-m", path.removesuffix(".py").replace("/", "."), *arguments]
    done = run(command, tmp_path, cwd=tmp_path, environment=environment_of(tmp_path, **variables))
    assert done.code == 0, (done.output + done.errors)[-4000:]
    assert any(word in done.output for word in ("accuracy", "validation loss", "agree")), done.output


def test_every_example_is_tried():
    found = {path.relative_to(ROOT).as_posix() for path in (ROOT / "examples").rglob("*.py")}
    assert {path for path in found if not path.endswith("__init__.py")} == {*CALLS, *PARTS}
