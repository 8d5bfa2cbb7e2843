"""`vllm serve`: what clients get, and what bad input leaves behind."""

import json
import os
import re
import signal
import sys

import pytest

from commands import ROOT, child, free_port
from ecosystem.vllm import server
from examples.serve_llm import NEAR, PROMPTS, shortfalls

# Eager without a graph, or what the mode makes graphs by: torch.compile, or HPU graphs in lazy mode.
KINDS = {"plain": ("--enforce-eager",), "graphs": ()}
MODULE = {"OPENHPU_DEVICE_COUNT": "64", "HABANA_VISIBLE_MODULES": str(8 + os.getpid() % 56)}  # nobody else's
_DEADLINE_S = 900.0  # of a server, and of its tests together
_REFUSED_S = 200.0


@pytest.fixture(scope="module", params=list(KINDS))
def serving(request, folder):
    with server.serving(folder, *KINDS[request.param], seconds=_DEADLINE_S) as one:
        yield one


def check_tokens(folder, status, answer, count):
    assert status == 200, answer
    (choice,) = answer["choices"]
    assert len(choice["token_ids"]) == count
    assert max(shortfalls(folder, choice["prompt_token_ids"], choice["token_ids"])) <= NEAR


def module_is_free():
    """Whether a new process gets the module at once."""
    words = [sys.executable, "-c", "import torch; print(torch.ones(2, device='hpu').sum().item())"]
    env = os.environ | {"OPENHPU_MODULE_LOCKS": "1", "OPENHPU_MODULE_WAIT_S": "0", **MODULE}
    return "2.0" in child.run(words, seconds=100, env=env).checked("a new process").output


def refused(folder, *options, port=None, **more):
    """What a server said that can't start."""
    words = server.command(folder, port or free_port(), "--enforce-eager", *options)
    ended = child.run(words, seconds=_REFUSED_S, env=server.environment(**MODULE, **more), cwd=ROOT, farewell=5.0)
    assert ended.code not in (0, -signal.SIGSEGV, -signal.SIGABRT), ended.tail
    assert not ended.timed_out, ended.tail
    assert not ended.killed
    return ended.output


@pytest.mark.parametrize("prompt", PROMPTS)
def test_completion(serving, folder, prompt):
    check_tokens(folder, *serving.complete(prompt, 12), 12)


def test_bench(serving, folder):
    ended = serving.bench(folder)
    assert re.search(r"Successful requests:\s+32\b", ended.output), ended.tail
    assert re.search(r"Total generated tokens:\s+512\b", ended.output), ended.tail


def test_a_request_that_is_too_long(serving, folder):
    status, answer = serving.complete([5] * 600, 4)
    assert status == 400
    assert "512" in json.dumps(answer)
    check_tokens(folder, *serving.complete(PROMPTS[0], 4), 4)


def test_a_client_that_disconnects(serving, folder):
    request = {"prompt": PROMPTS[1], "max_tokens": 400, "ignore_eos": True, "stream": True}
    with serving.answer("/v1/completions", **request) as answer:
        assert answer.readline().startswith(b"data: ")
    check_tokens(folder, *serving.complete(PROMPTS[0], 4), 4)


def test_a_port_in_use(serving, folder):
    assert "address already in use" in refused(folder, port=serving.port).lower()
    check_tokens(folder, *serving.complete(PROMPTS[0], 4), 4)


def test_data_parallel(folder):
    """Two engines of one server."""
    with server.serving(folder, "--enforce-eager", "--data-parallel-size", "2", seconds=_DEADLINE_S) as one:
        for prompt in PROMPTS * 2:
            check_tokens(folder, *one.complete(prompt, 8), 8)


@pytest.mark.parametrize("killed", [signal.SIGKILL, signal.SIGTERM])
def test_the_end(folder, killed):
    """SIGKILL of the engine's process ends the server as well; SIGTERM of the server ends the engine."""
    with server.serving(folder, "--enforce-eager", seconds=_DEADLINE_S, **MODULE) as one:
        check_tokens(folder, *one.complete(PROMPTS[0], 4), 4)
        processes = server.children(one.process.pid)
        (engine,) = [pid for pid, line in processes.items() if "EngineCore" in line]
        os.kill(engine if killed == signal.SIGKILL else one.process.pid, killed)
        ended = one.process.poll(60)
        if ended is None:  # vLLM's server may wait for a request before it notices
            one.get("/health")
            one.complete(PROMPTS[0], 4)
            ended = one.process.poll(60)
        assert ended is not None, one.process.printed()[-3000:]
        assert not ended.killed
    assert module_is_free()


@pytest.mark.parametrize("kind", KINDS)
def test_a_report_while_it_serves(folder, kind):
    """SIGUSR1: the engine's phases with their memory, and the lines of the plugin that wait."""
    with server.serving(folder, *KINDS[kind], seconds=_DEADLINE_S, report=True) as one:
        check_tokens(folder, *one.complete(PROMPTS[0], 4), 4)
        said = ""
        while "blocking reads" not in said:  # the first write has come
            one.process.poll(2.0)
            os.kill(one.process.pid, signal.SIGUSR1)
            said = one.process.printed()
        check_tokens(folder, *one.complete(PROMPTS[1], 4), 4)
    found = dict(re.findall(r"^  (weights|KV cache|warm-up|serving): (.+)$", said, re.MULTILINE))
    assert {*found} == {"weights", "KV cache", "warm-up", "serving"}, said[-3000:]
    assert "still running" in said, said[-3000:]
    assert "MiB in use at its end" in found["weights"]
    assert "iB in use at its end" in found["KV cache"]
    assert re.search(r"^  hpu_worker.py:\d+: aten::item, .*waited", said, re.MULTILINE), said[-3000:]


def test_a_model_that_is_too_large(folder):
    said = refused(folder, OPENHPU_MEMORY_GB="0.002")
    assert "PT_DEVMEM Allocation failed" in said, said[-3000:]
    assert module_is_free()


def test_more_ranks_than_modules(folder):
    said = refused(folder, "--tensor-parallel-size", "2", OPENHPU_MEMORY_GB="2")
    assert re.search("Error: .*(module|device)", said), said[-3000:]
    assert module_is_free()
