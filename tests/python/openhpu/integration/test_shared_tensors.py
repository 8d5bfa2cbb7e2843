"""hpu tensors sent to other processes: no copies, and memory that lives exactly as long as somebody has it.

Each test is a program of its own, whose function `child` runs in a child process. It returns what `main` returns.
"""

import json

import pytest

from tests.processes import clean_environment, run_file

HEAD = """
import glob, json, os, signal, sys, time
import torch
import torch.multiprocessing as mp
import habana_frameworks.torch
from multiprocessing.reduction import ForkingPickler

def in_use():
    torch.hpu.synchronize()
    return torch.hpu.memory_stats()["InUse"]

def start(child):
    # Queues there and back, and the process that has them.
    context = mp.get_context("spawn")
    queue, answers = context.Queue(), context.Queue()
    process = context.Process(target=child, args=(queue, answers))
    process.start()
    return queue, answers, process

def shared_files():
    # This process's descriptors of shared tensors.
    return [name for name in map(os.path.realpath, glob.glob("/proc/self/fd/*")) if "hpu tensor" in name]

def error_of(action):
    try:
        action()
    except (RuntimeError, OSError) as error:
        return str(error)
"""
FOOT = """
if __name__ == "__main__":
    print(json.dumps(main(*start(child)) if "child" in globals() else main()))
"""


@pytest.fixture(params=["eager", "lazy"])
def program(request, tmp_path):
    """Run a program whose functions child processes can import; what its `main` returns."""

    def run(code):
        environment = clean_environment(
            tmp_path, PT_HPU_LAZY_MODE=str(int(request.param == "lazy")), OPENHPU_COMPILE="off", OMP_NUM_THREADS="1"
        )
        return json.loads(run_file(HEAD + code + FOOT, tmp_path, environment, fails=False).out.splitlines()[-1])

    return run


def test_writes_are_seen_by_both_sides(program):
    result = program("""
def child(queue, answers):
    x = queue.get()
    answers.put((x.device.type, x.tolist()))
    x.mul_(10)
    torch.hpu.synchronize()
    answers.put("written")
    queue.get()
    answers.put(x.tolist())

def main(queue, answers, process):
    x = torch.zeros(3, device="hpu")
    for i in range(5):
        x.add_(1)
    queue.put(x)  # all of it is in what arrives
    out = [answers.get(), answers.get(), x.tolist()]
    x.add_(1)
    torch.hpu.synchronize()
    queue.put(None)
    out.append(answers.get())
    process.join()
    return [*out, process.exitcode]
""")
    assert result == [["hpu", [5.0] * 3], "written", [50.0] * 3, [51.0] * 3, 0]


def test_arguments_of_spawn_and_parameters(program):
    result = program("""
def work(rank, model, x, done):
    with torch.no_grad():
        model.weight[rank].fill_(rank + 1)
        x[rank] = model(torch.ones(2, device="hpu"))[rank]
    torch.hpu.synchronize()
    assert isinstance(model.weight, torch.nn.Parameter)
    assert model.weight.requires_grad
    assert model.weight.is_leaf

def main():
    model, x = torch.nn.Linear(2, 3, bias=False).to("hpu"), torch.zeros(3, device="hpu")
    mp.spawn(work, args=(model, x, None), nprocs=3)
    return model.weight.tolist(), x.tolist()
""")
    assert result == [[[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]], [2.0, 4.0, 6.0]]


def test_aliases_stay_aliases(program):
    result = program("""
def child(queue, answers):
    x, part, other = queue.get()
    again = queue.get()
    part.fill_(7)
    same = x.untyped_storage()._cdata == part.untyped_storage()._cdata == again.untyped_storage()._cdata
    answers.put((x.tolist(), part.stride(), part.storage_offset(), same, again.tolist(), other.tolist()))
    answers.put(x)  # back to where it came from
    queue.get()

def main(queue, answers, process):
    x = torch.arange(12.0).to("hpu").view(3, 4)
    queue.put((x, x[1:, ::2], torch.ones(2, dtype=torch.int64).to("hpu")))
    queue.put(x.t())
    out = answers.get()
    back = answers.get()
    same = back.untyped_storage()._cdata == x.untyped_storage()._cdata
    queue.put(None)
    process.join()
    return *out, same, x.tolist()
""")
    rows = [[0.0, 1.0, 2.0, 3.0], [7.0, 5.0, 7.0, 7.0], [7.0, 9.0, 7.0, 11.0]]
    columns = [list(column) for column in zip(*rows, strict=True)]
    assert result == [rows, [4, 2], 4, True, columns, [1, 1], True, rows]


def test_memory_lives_as_long_as_somebody_has_it(program):
    result = program("""
def child(queue, answers):
    x = queue.get()
    answers.put(in_use() >= 1 << 22)
    queue.get()
    answers.put(x.sum().item())  # the sender has dropped it
    del x
    answers.put([in_use(), shared_files()])

def main(queue, answers, process):
    torch.zeros(1, device="hpu")
    before = in_use()
    x = torch.full((1 << 20,), 2.0, device="hpu")
    queue.put(x)
    out = [answers.get()]
    y = x * 2
    x.add_(1)  # still on its way when x is dropped
    del x
    out.append(y.sum().item())
    del y
    out.append([in_use() - before, shared_files()])
    queue.put(None)
    out += [answers.get(), answers.get()]
    process.join()
    return out
""")
    assert result == [True, float(4 << 20), [0, []], float(3 << 20), [0, []]]


def test_a_consumer_that_is_killed_leaks_nothing(program):
    result = program("""
def child(queue, answers):
    x = queue.get()
    answers.put(x.sum().item())
    time.sleep(1000)

def main(queue, answers, process):
    torch.zeros(1, device="hpu")
    before = in_use()
    x = torch.ones(1 << 20, device="hpu")
    queue.put(x)
    total = answers.get()
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    value = x.add_(1).sum().item()
    del x
    return total, value, in_use() - before, shared_files()
""")
    assert result == [float(1 << 20), float(2 << 20), 0, []]


@pytest.mark.parametrize("early", [True, False])
def test_a_producer_that_ended_before_or_after(program, early):
    """What it sent before it ended cannot be received: an error that says so. What was received stays."""
    first, second = program(f"""
def child(queue, answers):
    answers.put(torch.full((3,), 4.0, device="hpu"))
    answers.put("sent")
    {early} or queue.get()

def main(queue, answers, process):
    received = []
    if {early}:
        process.join()
        received.append(error_of(answers.get))
    else:
        x = answers.get()
        queue.put(None)
        process.join()
        received.append(x.add_(1).tolist())
    return *received, [answers.get(), torch.ones(2, device="hpu").tolist(), process.exitcode]
""")
    assert first == [5.0] * 3 or early
    assert not early or first.startswith("An hpu tensor could not be received: the process that sent it has ended.")
    assert second == ["sent", [1.0, 1.0], 0]


def test_everything_that_can_be_sent(program):
    result = program("""
def child(queue, answers):
    for _ in range(4):
        value = queue.get()
        answers.put([str(type(value).__name__), str(value.dtype), str(value.device), list(value.shape), value.is_sparse,
                     value.to_dense().cpu().float().tolist() if value.is_sparse else value.cpu().float().tolist()])

def main(queue, answers, process):
    out = []
    for value in (
        torch.empty(0, 3, device="hpu"), torch.tensor([True, False], device="hpu"),
        torch.ones(2, dtype=torch.bfloat16, device="hpu").expand(3, 2), torch.eye(2).to_sparse().to("hpu"),
    ):
        queue.put(value)
        out.append(answers.get())
    x = torch.ones(2, device="hpu", requires_grad=True) * 2
    process.join()
    return *out, error_of(lambda: mp.get_context("spawn").SimpleQueue().put(x))[:30]
""")
    assert result == [
        ["Tensor", "torch.float32", "hpu:0", [0, 3], False, []],
        ["Tensor", "torch.bool", "hpu:0", [2], False, [1.0, 0.0]],
        ["Tensor", "torch.bfloat16", "hpu:0", [3, 2], False, [[1.0, 1.0]] * 3],
        ["Tensor", "torch.float32", "hpu:0", [2, 2], True, [[1.0, 0.0], [0.0, 1.0]]],
        "Cowardly refusing to serialize",
    ]


def test_graphs_hold_addresses(program):
    result = program("""
def main():
    x, y = torch.ones(2, device="hpu"), torch.ones(2, device="hpu")
    ForkingPickler.dumps(x)
    address = x.data_ptr()
    graph = torch.hpu.HPUGraph()
    with torch.hpu.graph(graph):
        x.add_(y)
    ForkingPickler.dumps(x)
    out = [error_of(lambda: ForkingPickler.dumps(y)), x.data_ptr() == address]
    graph.replay()
    out.append(x.tolist())
    del graph
    ForkingPickler.dumps(y)
    out += [error_of(lambda: x.resize_(100)), y.tolist()]
    graph = torch.hpu.HPUGraph()
    graph.capture_begin()
    out.append(error_of(lambda: ForkingPickler.dumps(torch.ones(2, device="hpu"))))
    graph.reset()
    return out
""")
    assert result[0].startswith("An hpu tensor whose address a captured graph holds can't be moved")
    assert result[1:3] == [True, [3.0, 3.0]]
    assert "not resizable" in result[3]
    assert result[4] == [1.0, 1.0]
    assert "is not supported during HPU Graph capturing" in result[5]


def test_too_many_files_is_an_error_that_says_so(program):
    result = program("""
import resource

def main():
    torch.ones(1, device="hpu")
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    tensors = [torch.ones(2, device="hpu") for _ in range(80)]
    text = error_of(lambda: [ForkingPickler.dumps(x) for x in tensors])
    return text, tensors[-1].tolist(), tensors[0].tolist()
""")
    assert "Too many open files" in result[0]
    assert result[1:] == [[1.0, 1.0]] * 2
