"""Parts of the whole conformance suite: every dtype, every sample."""

import sys

import pytest

from tests.rotating.shards import CONFORMANCE, MINUTES, run

PARTS = [(mode, k, parts) for mode, parts in CONFORMANCE.items() for k in range(1, parts + 1)]


@pytest.mark.parametrize(("mode", "k", "parts"), PARTS, ids=[f"{mode}-{k}-of-{parts}" for mode, k, parts in PARTS])
def test_part(mode, k, parts, tmp_path):
    command = [sys.executable, "-m", "tests.conformance.run", "--mode", mode, "--shard", f"{k}/{parts}"]
    command += ["--jobs", "1", "--minutes", str(MINUTES)]
    done = run(command, tmp_path)
    print(done.output[-2000:])
    assert done.code == 0, (done.output + done.errors)[-6000:]
    passed = int(done.output.splitlines()[-1].split(" passed, ")[0])
    assert passed > 20
