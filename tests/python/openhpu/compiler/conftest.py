"""Compiling in a process that has no hpu device, as the compile process has none; running what it made here."""

import pickle
from pathlib import Path

import pytest
import torch

import openhpu
from commands.answering import Answering
from openhpu.compiler import CannotCompile
from openhpu.compiler.client.manifest import Manifest
from openhpu.compiler.program.program import Program

_ANSWER_S = 100.0  # for all descriptions of a test


class Compiled:
    """A compiled recipe and the program that it has to agree with."""

    def __init__(self, description, manifest: Manifest, directory: Path):
        self.description = description
        self.manifest = manifest
        self.directory = directory / manifest.key
        self.program = Program(description)

    def run(self, inputs):
        """The recipe's outputs; changes the inputs in place."""
        runner = torch._C._aoti.AOTIModelContainerRunnerCpu(str(self.directory / "recipe.so"), 1)
        return runner.run(inputs)

    def inputs(self, storages, scalars=None):
        """Copies of what lies in the slots' storages, as the manifest wants them, and the variable numbers."""
        scalars = scalars or self.description["scalars"]
        tensors = []
        for place in self.manifest.inputs:
            where = storages[place.slot], place.offset, place.sizes, place.strides
            copy = torch.empty_strided(place.sizes, place.strides, dtype=place.dtype)
            tensors.append(copy.copy_(torch.empty(0, dtype=place.dtype).set_(*where)))
        numbers = [torch.tensor(scalars[s.index], dtype=s.dtype) for s in self.manifest.scalar_inputs]
        return tensors + numbers

    def check(self, storages, scalars=None, **tolerance):
        """The recipe does to copies of the storages' contents what the program does; returns its outputs."""
        ours, theirs = self.inputs(storages, scalars), self.inputs(storages, scalars)
        got = self.run(ours)
        with torch.no_grad():
            wanted = self.program.function()(*theirs)
        assert len(got) == len(wanted) == len(self.manifest.outputs)
        for tensor, place in zip(got, self.manifest.outputs, strict=True):
            assert (tensor.dtype, tuple(tensor.shape)) == (place.dtype, place.sizes)
            for n, a, b in zip(tensor.shape, tensor.stride(), place.strides, strict=True):
                assert n == 1 or a == b or not tensor.numel()
        for ours_, theirs_ in zip([*got, *ours], [*wanted, *theirs], strict=True):
            limits = {} if ours_.dtype.itemsize == 2 else tolerance  # halves have wider ones by default
            torch.testing.assert_close(ours_, theirs_, equal_nan=True, **limits)
        addresses = [t.untyped_storage().data_ptr() for t in (*got, *ours) if t.numel()]
        assert len(set(addresses)) == len(addresses), "the recipe returned an input or one tensor twice"
        return got


@pytest.fixture(scope="session")
def compile_process(tmp_path_factory):
    """One for all tests, as a script has one for all its graphs: importing Inductor takes longer than most of them."""
    environment = {
        "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
        "PYTHONPATH": str(Path(openhpu.__file__).parents[1]),
        "TORCHINDUCTOR_CACHE_DIR": str(tmp_path_factory.getbasetemp() / "inductor"),
    }
    with Answering("tests.python.openhpu.compiler.compiling", environment=environment) as process:
        yield process


@pytest.fixture
def compiled(tmp_path_factory, compile_process):
    """Compile descriptions, all in one process: a list of Compiled, or of CannotCompile where that is the answer."""

    def compile_all(*descriptions):
        folder = tmp_path_factory.mktemp("recipes")
        exchange = folder / "exchange.pickle"
        exchange.write_bytes(pickle.dumps(descriptions))
        compile_process.ask("compile", str(exchange), str(folder))
        while compile_process.answer(_ANSWER_S) != str(exchange):
            pass  # what an earlier test no longer waited for
        results = pickle.loads(exchange.read_bytes())
        return [
            result if isinstance(result, CannotCompile) else Compiled(description, result, folder)
            for description, result in zip(descriptions, results, strict=True)
        ]

    return compile_all
