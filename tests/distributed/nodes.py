"""Nodes: network namespaces whose packets a thread of the test carries, late, and of which it loses some.

So no kernel's netem is needed, only root, or the right to make network namespaces and TUN devices.
"""

import contextlib
import ctypes
import fcntl
import os
import random
import select
import shutil
import socket
import struct
import subprocess
import sys
import threading
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import pytest

from commands import child
from tests.distributed.ranks import ROOT

# Two suites may run the test at once.
_OWN = os.getpid()
LINK = "ohpu"
_LIFE_S = 1600  # of a job; tests have less
# Ranks with process numbers or shared memory in common are of one machine, and would use this instead of the network.
_OWN_NUMBERS = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
_OWN_MEMORY = ("sh", "-c", 'mount -t tmpfs none /dev/shm && exec "$@"', "sh")
PORT = 29555
DELAY_S = 0.001
LOSS = 0.001
# Of Linux: linux/if_tun.h, sched.h.
_TUNSETIFF = 0x400454CA
_IFF_TUN = 0x1
_IFF_NO_PI = 0x1000
_CLONE_NEWNET = 0x40000000


class Node(NamedTuple):
    """A node by its namespace and its address."""

    name: str
    address: str

    def cut(self):
        """From now on nothing reaches it, and nothing comes from it."""
        ip("-n", self.name, "link", "set", LINK, "down")


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True, timeout=30)


@pytest.fixture
def nodes():
    """Makes so many nodes."""
    with contextlib.ExitStack() as stack:

        def make(count):
            made = [Node(f"ohpu-{i}-{_OWN}", f"10.231.7.{i + 1}") for i in range(count)]
            ends = {}
            try:
                for node in made:
                    ip("netns", "add", node.name)
                    stack.callback(subprocess.run, ["ip", "netns", "del", node.name], check=False, timeout=30)
                    ends[socket.inet_aton(node.address)] = end = _tun(node.name)
                    stack.callback(os.close, end)
                    ip("-n", node.name, "addr", "add", f"{node.address}/24", "dev", LINK)
                    for link in ("lo", LINK):
                        ip("-n", node.name, "link", "set", link, "up")
            except (OSError, subprocess.CalledProcessError) as error:
                pytest.skip(f"no nodes can be made here: {getattr(error, 'stderr', '') or error}")
            over = threading.Event()
            carrier = threading.Thread(target=_carry, args=(ends, over), daemon=True)
            carrier.start()
            stack.callback(carrier.join, 10)
            stack.callback(over.set)
            return made

        yield make


def _tun(namespace):
    """A TUN device in a namespace, as a descriptor. A thread of its own enters the namespace, and ends in there."""

    def enter():
        with open(f"/run/netns/{namespace}", "rb") as there:
            if ctypes.CDLL(None, use_errno=True).setns(there.fileno(), _CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), "setns")
        file = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(file, _TUNSETIFF, struct.pack("16sH22x", LINK.encode(), _IFF_TUN | _IFF_NO_PI))
        return file

    with ThreadPoolExecutor(1) as alone:
        return alone.submit(enter).result()


def _carry(ends, over):
    """Each packet goes to the node that it names, DELAY_S later, but for a share LOSS of them."""
    draw = random.Random(0)
    waiting = deque()
    while not over.is_set():
        late = waiting[0][0] - time.monotonic() if waiting else 0.05
        for end in select.select([*ends.values()], [], [], max(0.0, min(late, 0.05)))[0]:
            with contextlib.suppress(OSError):
                packet = os.read(end, 1 << 16)
                if draw.random() >= LOSS:
                    waiting.append((time.monotonic() + DELAY_S, packet))
        while waiting and waiting[0][0] <= time.monotonic():
            packet = waiting.popleft()[1]
            with contextlib.suppress(OSError, LookupError):  # IPv6, or a link that is down
                os.write(ends[packet[16:20]], packet)


def inside(node, *words):
    """A command as a command on a node, where it is process 1: all others of the node end with it."""
    return ["ip", "netns", "exec", node.name, *_OWN_NUMBERS, *_OWN_MEMORY, *words]


def environment():
    """Variables of a node's processes."""
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path}


@contextlib.contextmanager
def started(nodes, script, ranks_per_node, *arguments, variables=lambda _: {}):
    """A script under torchrun on each node, as children that end with the block; with more variables by its node."""
    torchrun = shutil.which("torchrun", path=os.path.dirname(sys.executable)) or "torchrun"
    with contextlib.ExitStack() as stack:
        processes = []
        for number, node in enumerate(nodes):
            command = inside(
                node,
                torchrun,
                "--nnodes",
                str(len(nodes)),
                "--node-rank",
                str(number),
                "--nproc-per-node",
                str(ranks_per_node),
                "--master-addr",
                nodes[0].address,
                "--master-port",
                str(PORT),
                str(script),
                *arguments,
            )
            env = environment() | variables(node)
            processes.append(stack.enter_context(child.start(command, seconds=_LIFE_S, env=env, cwd=script.parent)))
        yield processes
