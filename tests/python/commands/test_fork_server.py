"""A forked script is what a new interpreter would be, but for what the server imported."""

import sys

import pytest

from commands import child
from commands.fork_server import ForkServer

SELF = """
import atexit, gc, os, signal, sys, warnings
assert __name__ == "__main__"
assert sys.modules["__main__"].atexit
print(sys.argv, os.getcwd(), sorted(os.environ), sys.path[:2], sys.warnoptions, signal.getsignal(signal.SIGINT))
print(sorted(os.listdir("/proc/self/fd")), os.getsid(0) == os.getpid(), sys.stdin.read())
try:
    warnings.warn("something")
except UserWarning as warning:
    print("error", warning)
class Last:
    def __del__(self):
        print("deleted")
atexit.register(print, "at exit")
last = Last()
"""


@pytest.fixture(scope="module")
def server():
    with_json = ForkServer("json")
    yield with_json
    with_json.close()


def run(folder, server, *arguments, seconds=60, **environment):
    argv = [sys.executable, *arguments]
    return child.run(argv, seconds=seconds, env=environment, cwd=folder, input="given", split=True, server=server)


@pytest.mark.parametrize("file", [False, True])
def test_it_is_as_a_new_interpreter(server, tmp_path, file):
    (tmp_path / "script.py").write_text(SELF)
    arguments = ("-X", "faulthandler", "-W", "error", *(("script.py", "x") if file else ("-c", SELF, "x")))
    ended = [run(tmp_path, each, *arguments, A="1", LC_ALL="C.UTF-8", PYTHONPATH="/b") for each in (None, server)]
    assert ended[1].errors == ended[0].errors == ""
    assert ended[1].code == 0
    # A file's folder is the first of the paths.
    assert ended[1].output == ended[0].output


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("import sys; sys.exit(3)", 3),
        ("import os; os._exit(4)", 4),
        ("import os; os.abort()", -6),
        ("1 / 0", 1),
        ("raise KeyboardInterrupt", -2),
    ],
)
def test_how_it_ends(server, tmp_path, code, status):
    ended = run(tmp_path, server, "-c", code)
    assert ended.code == status
    assert ended.errors.count("ZeroDivisionError: division by zero") == (code == "1 / 0")
