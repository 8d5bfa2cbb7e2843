"""The phases of a worker of vLLM, as vllm-gaudi calls its methods."""

import sys
from types import ModuleType, SimpleNamespace

import pytest

from openhpu.integration import vllm
from openhpu.observe import events
from openhpu.testing.expect import Record


@pytest.fixture
def begun():
    """The names of phases that begin."""
    found = []
    subscription = events.subscribe("phase", lambda event: found.append(event.params["name"]))
    yield found
    events.unsubscribe(subscription)


@pytest.fixture
def worker(monkeypatch):
    """A worker's class in a module that stands for the plugin's, after the phases were put into it."""

    class HPUWorker:
        def load_model(self):
            return "loaded"

        def initialize_from_config(self):
            self.compile_or_warm_up_model()

        def compile_or_warm_up_model(self, *, answer="warm"):
            return answer

    module = ModuleType(vllm._MODULE)
    module.HPUWorker = HPUWorker
    monkeypatch.setitem(sys.modules, vllm._MODULE, module)
    vllm.install()
    return HPUWorker()


def test_phases(worker, begun):
    assert worker.load_model() == "loaded"
    worker.initialize_from_config()
    assert begun == ["weights", "KV cache", "warm-up", "serving"]
    assert worker.compile_or_warm_up_model(answer="again") == "again"  # vLLM's second call
    assert begun[-1] == "serving"
    assert len(begun) == 4


def test_a_plugin_without_the_methods(monkeypatch):
    monkeypatch.setitem(sys.modules, vllm._MODULE, SimpleNamespace())
    monkeypatch.setitem(sys.modules, vllm._RUNNER, SimpleNamespace())
    vllm.install()


class Tokens:
    def size(self, dimension):
        return 4


@pytest.mark.parametrize(
    ("metadata", "words"),
    [
        (SimpleNamespace(is_prompt=False), "vLLM runs decode 4 x 1, 16 blocks; requests of the step: a, b"),
        (SimpleNamespace(), "vLLM calls the model"),  # of another plugin
    ],
)
@pytest.mark.parametrize("by_expect", [False, True])
def test_call_of_the_model_names_its_bucket_and_its_requests(monkeypatch, by_expect, metadata, words):
    class HPUModelRunner:
        input_batch = SimpleNamespace(req_ids=["a", "b", None])

        def _seq_len(self, metadata):
            return 1

        def _num_blocks(self, metadata):
            return 16

        def _execute_model_generic(self, token_ids, position_ids, metadata, *, more):
            return events.current_work(), more

    module = ModuleType(vllm._RUNNER)
    module.HPUModelRunner = HPUModelRunner
    monkeypatch.setitem(sys.modules, vllm._RUNNER, module)
    record = Record()
    for _ in range(2):  # it is wrapped once
        if by_expect:
            record.begin()
            record.end()
        else:
            vllm.install()
    assert not hasattr(HPUModelRunner._execute_model_generic.__wrapped__, "__wrapped__")
    assert HPUModelRunner()._execute_model_generic(Tokens(), None, metadata, more=7) == (words, 7)
    assert events.current_work() == ""
