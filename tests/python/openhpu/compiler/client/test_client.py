"""The thread that serves graphs."""


def test_of_several_threads_that_capture_first_one_starts_it(script):
    """A second one would take a request from the queue while the first one waits with it."""
    script("""
import sys, threading
import habana_frameworks.torch.hpu as hpu
from openhpu.compiler.client import client

hpu.init()
sys.setswitchinterval(1e-6)
barrier = threading.Barrier(8)
threads = [threading.Thread(target=lambda: (barrier.wait(), client.start_compiling())) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert [thread.name for thread in threading.enumerate()].count("openhpu-graphs") == 1
""")
