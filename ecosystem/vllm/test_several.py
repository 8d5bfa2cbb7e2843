"""One model on two machines, by torchrun and by Ray: the tokens are those of one process.

The machines are network namespaces with processes and shared memory of their own (tests/distributed/nodes.py).
"""

import contextlib
import json
import sys
import tempfile

import pytest

from commands import ROOT, child
from ecosystem.vllm import several
from tests.distributed.nodes import LINK, environment, inside, nodes, started  # noqa: F401

_DEADLINE_S = 1500.0  # on a busy machine; an idle one needs a minute or two for each test
_NODES = 2


@pytest.fixture(scope="module")
def alone(folder, tmp_path_factory):
    """The tokens of one process."""
    out = tmp_path_factory.mktemp("alone")
    words = [sys.executable, "-m", several.__name__, "alone", "", str(folder), str(out)]
    child.run(words, seconds=_DEADLINE_S, cwd=ROOT).checked("one process")
    return json.loads((out / "0.json").read_text())["tokens"]


def by_torchrun(made, kind, folder, out):
    """A process on each machine, as torchrun starts them: how they ended, the first machine's last."""
    script = ROOT / "ecosystem" / "vllm" / "several.py"
    arguments = ("torchrun", kind, str(folder), str(out))
    with started(made, script, 1, *arguments, variables=of) as processes:
        return [process.wait(_DEADLINE_S) for process in reversed(processes)]


def by_ray(made, kind, folder, out):
    """A cluster of Ray, whose head has the engine: how this ended."""
    first, *others = made
    words = [sys.executable, "-m", several.__name__, "ray", kind, str(folder), str(out)]
    with contextlib.ExitStack() as stack:
        # Of this cluster alone; sockets need short names.
        files = stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))

        def start(node, *words):
            command, env = inside(node, *words), environment() | of(node) | {"RAY_TMPDIR": files}
            return stack.enter_context(child.start(command, seconds=_DEADLINE_S, cwd=ROOT, env=env))

        head = start(first, *words)
        while not several.has_head(out).exists():
            assert head.poll(0.5) is None, head.printed()
        came = [start(node, *several.ray_node(node.address, first.address)) for node in others]
        while (ended := head.poll(1.0)) is None:
            for one in came:
                assert one.poll(0.0) is None, f"a machine left the cluster\n{one.printed()}\n{head.printed()}"
        return [ended]


def of(node):
    """What a user sets on a machine: its address for vLLM, and the interface for Gloo and for hccl."""
    return {
        "VLLM_HOST_IP": node.address,
        "GLOO_SOCKET_IFNAME": LINK,
        "HCCL_SOCKET_IFNAME": LINK,
        "OPENHPU_DEVICE_COUNT": "1",
        "RAY_worker_niceness": "0",  # 15 by default: beside other work the workers hardly run
        "RAY_AUTH_MODE": "disabled",  # nobody else has this network; the user's token is not the test's
        "PYTHONSAFEPATH": "1",  # the folder of the script has modules with names of others
    }


WAYS = {"ray": by_ray, "torchrun": by_torchrun}


@pytest.mark.parametrize("kind", ["tensor", "pipeline"])
@pytest.mark.parametrize("way", WAYS)
def test_tokens(nodes, folder, alone, tmp_path, way, kind):  # noqa: F811
    for ended in WAYS[way](nodes(_NODES), kind, folder, tmp_path):
        assert ended.code == 0, ended.output[-6000:]
    found = [json.loads(file.read_text()) for file in sorted(tmp_path.glob("*.json"))]
    assert len(found) == {"torchrun": _NODES, "ray": 1}[way]
    for one in found:
        assert one["tokens"] == alone
    workers = [worker for one in found for worker in one["workers"]]
    assert [worker["rank"] for worker in workers] == list(range(_NODES))
    for worker in workers:
        assert worker["collectives"] > 50, worker
        assert worker["in memory"] == 0, worker
        assert worker["fallbacks"] == 0, worker
