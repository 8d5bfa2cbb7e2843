"""A clock that jumps an hour back and forth changes no result, no duration and no wait."""

import json
import os
import subprocess

from tests.python.openhpu.settings.test_folders import LAZY

# The system's clock, which is an hour late, right and an hour early in turns.
SHIM = """
#include <atomic>
#include <dlfcn.h>
#include <time.h>
static std::atomic<int> calls;
static int jump() { return (calls++ % 3 - 1) * 3600; }
extern "C" int clock_gettime(clockid_t clock, timespec* t) noexcept {
  static auto real = reinterpret_cast<int (*)(clockid_t, timespec*)>(dlsym(RTLD_NEXT, "clock_gettime"));
  const int code = real(clock, t);
  if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) t->tv_sec += jump();
  return code;
}
"""
CODE = """
    import time, torch, openhpu, habana_frameworks.torch.core as htcore
    from openhpu import events
    assert len({round(time.time(), -3) for _ in range(3)}) > 1
    came = set()
    for kind in ("graph_compilation", "recipe_loaded"):
        events.subscribe(kind, lambda event: came.add(event.kind))
    x = torch.ones(100, device="hpu")
    for _ in range(3):
        y = (x * 2).relu().sum()
        htcore.mark_step()
    assert openhpu.wait_for_recipes()
    print(y.item())
    print(sorted(came))
"""


def test_a_clock_that_jumps(script, tmp_path):
    library = tmp_path / "jump.so"
    command = [os.environ.get("CXX", "g++"), "-shared", "-fPIC", "-x", "c++", "-", "-o", str(library)]
    subprocess.run(command, input=SHIM, text=True, check=True, timeout=60)
    (data := tmp_path / "data").mkdir()
    variables = {
        **LAZY,
        "LD_PRELOAD": str(library),
        "PT_HPU_RECIPE_CACHE_CONFIG": str(tmp_path / "recipes"),
        "LOG_LEVEL_ALL": "0",
        "HABANA_LOGS": str(tmp_path),
        "OPENHPU_REPORT_DATA": str(data),
        "PT_HPU_METRICS_FILE": str(tmp_path / "metrics.json"),
        "OPENHPU_MODULE_LOCKS": "1",
        "XDG_RUNTIME_DIR": str(tmp_path),
    }
    for came in ("graph_compilation", "recipe_loaded"):  # the second process has the recipe of the first
        result = script(CODE, warnings="always", **variables)
        assert result.out.splitlines() == ["200.0", f"['{came}']"], result.err
    documents = [json.loads(path.read_text()) for path in data.iterdir()]
    assert len(documents) == 2
    assert all(0 <= one["process"]["seconds"] < 1800 for one in documents)
