"""Parts of the whole conformance suite: every dtype, every sample."""

import subprocess
import sys

import pytest

from tests.conformance.pool import ROOT
from tests.rotating.shards import CONFORMANCE, MINUTES

PARTS = [(mode, k, parts) for mode, parts in CONFORMANCE.items() for k in range(1, parts + 1)]


@pytest.mark.parametrize(("mode", "k", "parts"), PARTS, ids=[f"{mode}-{k}-of-{parts}" for mode, k, parts in PARTS])
def test_part(mode, k, parts):
    command = [sys.executable, "-m", "tests.conformance.run", "--mode", mode, "--shard", f"{k}/{parts}"]
    command += ["--jobs", "1", "--minutes", str(MINUTES)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    print(done.stdout[-2000:])
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
    passed = int(done.stdout.splitlines()[-1].split(" passed, ")[0])
    assert passed > 20
