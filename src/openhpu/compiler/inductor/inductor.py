"""Inductor, driven directly: from a functional graph to a shared library for the CPU (AOTInductor)."""

import functools
import json
import math
import re
import shutil
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch.fx import GraphModule

from openhpu.compiler.inductor import (
    biases,
    casts,
    contracted,
    dropped_stores,
    edges,
    fast_tanh,
    floor_division,
    kernel_marks,
    overwritten_operands,
    own_operators,
    rounded_constants,
    strides,
    toolchain,
    vector_exp,
    vector_random,
)
from openhpu.compiler.program import float8

# Calls of a generated wrapper that are no kernels: bookkeeping of handles and memory.
_BOOKKEEPING = re.compile(
    r"aoti_torch_(get|new|delete|empty|create|assign|item|device|dtype|check|reinterpret|view|zero_)|_strided$"
)
_CALL = re.compile(r"\b(aoti_torch_cpu_\w+)\(")
_KERNEL = re.compile(r'^extern "C" +void +(?:\w+ +)*(\w+)\(', re.MULTILINE)


# What `build` leaves in a folder; the second if operators are called through PyTorch's dispatcher.
FILES = ("recipe.so", "recipe.json")


def decompositions() -> dict[Any, Callable[..., Any]]:
    """Inductor's table of operators that it has no lowering for, as simpler ones."""
    from torch._inductor.decomposition import select_decomp_table

    own = fast_tanh.decompositions(contracted.decompositions(dict(select_decomp_table())))
    return float8.decompositions(floor_division.decompositions(edges.decompositions(own)))


def options(graph: GraphModule, threads: int, output: Path) -> dict[str, Any]:
    """Inductor's configuration for one recipe."""
    frozen = bool(graph.graph.find_nodes(op="get_attr"))
    return {
        "cpp_wrapper": True,
        "aot_inductor.output_path": str(output),
        "cpp.threads": threads,
        "compile_threads": 1,
        "keep_output_stride": True,
        "aot_inductor.enable_frame_pointer": False,
        "aot_inductor.enable_line_tables": False,
        # The device passes the arguments that the manifest describes.
        "size_asserts": False,
        "alignment_asserts": False,
        "scalar_asserts": False,
        # Small products with constant weights are generated code: a library call costs more than they do. The choice is
        # by size, not by trial, so that results do not depend on what else the machine does.
        "freezing": frozen,
        "max_autotune": frozen and _are_products_small(graph),
        "max_autotune_gemm_backends": "CPP",
        # A cast to bfloat16 that the script writes rounds, also where the result goes on as float32.
        "emulate_precision_casts": True,
        # From 2.14 on this pass removes `x + 0.0`, too, which makes 0.0 of -0.0.
        "joint_graph_constant_folding": torch.__version__ < "2.14",
    }


# Multiplications of a matrix product up to which generated code beats a library's.
_SMALL_PRODUCT = 1 << 18


def _are_products_small(graph: GraphModule) -> bool:
    """Whether all matrix products of the graph are, the sizes of which are known."""
    aten = torch.ops.aten
    for target, first in ((aten.mm.default, 0), (aten.addmm.default, 1), (aten.bmm.default, 0)):
        for node in graph.graph.find_nodes(op="call_function", target=target):
            left, right = (_shape(graph, node.args[k]) for k in (first, first + 1))
            if not left or not right or not all(isinstance(n, int) for n in (*left, *right)):
                return False
            if math.prod(left) * right[-1] > _SMALL_PRODUCT:
                return False
    return True


def _shape(graph: GraphModule, node: Any) -> tuple[Any, ...]:
    value = getattr(graph, node.target) if node.op == "get_attr" else node.meta.get("val")
    return () if value is None else tuple(value.shape)


def build(
    graph: GraphModule, inputs: Sequence[torch.Tensor], threads: int, directory: Path
) -> tuple[int, dict[str, int]]:
    """Compile the graph (flat, functional but for copies into inputs) into `directory`, which must exist.

    `inputs` are the fake tensors that it was traced with. Returns how many kernels were generated, and the calls of
    PyTorch's own by name. Raises exceptions of Inductor and the C++ compiler.
    """
    from torch._dynamo.utils import get_metrics_context
    from torch._inductor import compile_fx, config, metrics
    from torch._inductor.codegen import cpp
    from torch._inductor.codegen.cpp import CppVecOverrides
    from torch._inductor.virtualized import V
    from torch._subclasses import FakeTensorMode

    fake_mode = next((t.fake_mode for t in inputs if hasattr(t, "fake_mode")), None) or FakeTensorMode()
    metrics.reset()
    own_operators.register_lowerings()
    output = directory / "recipe.so"
    with (
        V.set_aot_compilation(True),
        mock.patch.multiple(
            CppVecOverrides,
            exp=staticmethod(vector_exp.exp),
            expm1=staticmethod(edges.expm1),
            sigmoid=staticmethod(vector_exp.sigmoid),
            rand=staticmethod(vector_random.rand),
        ),
        mock.patch.object(cpp, "stride_at_vec_range", strides.quickly(cpp.stride_at_vec_range)),
        biases.in_loops(),
        casts.as_on_cpu(),
        rounded_constants.rounded(),
        dropped_stores.guarded(),
        kernel_marks.marked(),
        overwritten_operands.kept(),
        toolchain.quick(directory) as prepared,
        config.patch(options(graph, threads, output)),
        config.patch(compile_fx.get_cpp_wrapper_config()),
        V.set_real_inputs(inputs),
        V.set_fake_mode(fake_mode),
        get_metrics_context(),
        torch.no_grad(),
    ):
        prepared.ahead()
        outputs = compile_fx.get_num_model_outputs(graph)
        compiled = compile_fx.compile_fx_forward(
            graph,
            inputs,
            num_orig_model_outputs=outputs,
            num_example_inputs=len(inputs),
            compiler_config_extra=compile_fx.create_compiler_config_extra(graph),
            inner_compile=functools.partial(compile_fx.compile_fx_inner, cpp_wrapper=True),
            is_inference=True,
        )
    library = Path(compiled.filename)  # type: ignore[attr-defined]
    if library != output:
        shutil.move(library, output)
    for nodes in directory.glob("*.wrapper.json"):  # PyTorch looks for it under the library's name
        nodes.rename(output.with_suffix(".json"))
    return _counted(directory)


def ahead(directory: Path) -> None:
    """Import what compilations need, and begin with what is the same in all recipes. `directory` as for `build`."""
    with warnings.catch_warnings(action="ignore"):
        import torch._functorch.aot_autograd
        import torch._inductor.lowering
        from torch._inductor import config
        from torch._inductor.compile_fx import get_cpp_wrapper_config
        from torch._inductor.fx_passes import joint_graph, post_grad

        # Patterns of the passes, which the first compilation would trace.
        joint_graph.lazy_init(torch.device("cpu"))
        post_grad.lazy_init()
        settings = options(torch.fx.symbolic_trace(torch.nn.Identity()), 1, directory / "recipe.so")
        with toolchain.quick(directory) as prepared, config.patch(settings), config.patch(get_cpp_wrapper_config()):
            prepared.ahead()


def _counted(directory: Path) -> tuple[int, dict[str, int]]:
    """Generated kernels, and external calls by operator, out of the generated sources."""
    kernels = sum(len(set(_KERNEL.findall(path.read_text()))) for path in directory.glob("*.kernel.cpp"))
    external: Counter[str] = Counter()
    for path in directory.glob("*.wrapper.cpp"):
        for name in _CALL.findall(path.read_text()):
            if not _BOOKKEEPING.search(name):
                external[name.removeprefix("aoti_torch_cpu_").removesuffix("_out")] += 1
    for path in directory.glob("recipe.json"):
        for entry in json.loads(path.read_text())["nodes"]:
            external[entry["node"]["target"].replace("::", ".").removeprefix("aten.").removesuffix(".default")] += 1
    return kernels, dict(external)
