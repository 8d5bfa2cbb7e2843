"""Two nodes: network namespaces with a link between them, which a test makes and removes."""

import contextlib
import os
import shutil
import subprocess
import sys

import pytest

from tests.distributed.ranks import ROOT

# Two suites may run the test at once.
_OWN = os.getpid()
NODES = ((f"ohpu-a-{_OWN}", "ohpu-va", "10.231.7.1"), (f"ohpu-b-{_OWN}", "ohpu-vb", "10.231.7.2"))


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)


@pytest.fixture
def nodes():
    try:
        ip("netns", "add", f"ohpu-probe-{_OWN}")
        ip("netns", "del", f"ohpu-probe-{_OWN}")
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no network namespaces can be made here: {getattr(error, 'stderr', error)}")
    with contextlib.ExitStack() as stack:
        for name, _, _ in NODES:
            ip("netns", "add", name)
            stack.callback(subprocess.run, ["ip", "netns", "del", name], check=False)
        ip("link", "add", NODES[0][1], "netns", NODES[0][0], "type", "veth", "peer", NODES[1][1], "netns", NODES[1][0])
        for name, link, address in NODES:
            ip("-n", name, "addr", "add", f"{address}/24", "dev", link)
            ip("-n", name, "link", "set", link, "up")
            ip("-n", name, "link", "set", "lo", "up")
        yield NODES


def run_on_nodes(nodes, script, ranks_per_node, seconds):
    """Run a script by torchrun on both nodes. What each node printed; AssertionError where one fails."""
    torchrun = shutil.which("torchrun", path=os.path.dirname(sys.executable)) or "torchrun"
    processes = []
    for number, (name, link, _) in enumerate(nodes):
        command = [
            "ip", "netns", "exec", name, torchrun, "--nnodes", "2", "--nproc-per-node", str(ranks_per_node),
            "--node-rank", str(number), "--master-addr", nodes[0][2], "--master-port", "29555", str(script),
        ]  # fmt: skip
        environment = {**os.environ, "GLOO_SOCKET_IFNAME": link, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
        processes.append(
            subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment,
                cwd=script.parent,
            )
        )  # fmt: skip
    try:
        printed = [process.communicate(timeout=seconds)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    for process, text in zip(processes, printed, strict=True):
        assert process.returncode == 0, text
    return printed
