"""A virtual clock, and modules that see it."""

import sys
import textwrap
import time

import pytest

from openhpu_predict.serving.clock import EPOCH_NS, START_NS, Clock, Finder, nanoseconds

MODULE = """
import time
from time import monotonic, perf_counter as counter, sleep, time_ns

def inside():
    import time as within
    from time import time
    return within.time(), time()

def read():
    return time.time(), time_ns(), monotonic(), counter(), *inside()
"""


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def simulated(tmp_path, monkeypatch, clock):
    """A package whose modules see the clock, and one whose modules do not."""
    for name in ("seen_package", "other_package"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "__init__.py").write_text("")
        (folder / "part.py").write_text(textwrap.dedent(MODULE))
    finder = Finder(["seen_package"], {"time": clock.module()})
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", [finder, *sys.meta_path])
    yield finder
    for name in [one for one in sys.modules if one.startswith(("seen_package", "other_package"))]:
        del sys.modules[name]


def test_names_bound_by_every_kind_of_import(simulated, clock):
    import seen_package.part as part

    clock.work(2.5)
    now, start = (EPOCH_NS + 2_500_000_000) / 1e9, (START_NS + 2_500_000_000) / 1e9
    assert part.read() == (now, EPOCH_NS + 2_500_000_000, start, start, now, now)


def test_sleep_moves_the_clock_and_takes_no_time(simulated, clock):
    import seen_package.part as part

    part.sleep(3600)
    assert clock.now == 3600 * 10**9


def test_other_modules_keep_the_real_time(simulated):
    import other_package.part as part

    assert part.time is time
    assert part.read()[0] != pytest.approx(EPOCH_NS / 1e9, abs=1e6)


def test_what_was_imported_before_is_named(simulated):
    assert simulated.loaded() == []
    import seen_package.part  # noqa: F401

    assert simulated.loaded() == ["seen_package", "seen_package.part"]


def test_moments_without_an_argument_are_the_clocks(clock):
    module = clock.module()
    clock.work(3600)
    assert module.strftime("%Y-%m-%d %H:%M") == "2025-01-01 01:00"
    assert module.gmtime().tm_hour == 1
    assert module.gmtime(0).tm_year == 1970
    assert module.strftime("%Y", time.gmtime(0)) == "1970"


def test_device_works_through_its_work_in_order(clock):
    assert clock.launch(2e-3) == 2_000_000
    clock.work(1e-3)
    assert clock.launch(1e-3) == 3_000_000  # behind the first
    clock.wait(clock.free)
    assert clock.now == 3_000_000
    clock.work(1e-3)
    assert clock.launch(1e-3) == 5_000_000  # the device was idle
    assert clock.busy == 4_000_000
    assert clock.host == 2_000_000


def test_waiting_for_the_past_does_not_move_the_clock(clock):
    clock.work(1.0)
    clock.wait(10)
    clock.sleep(10)
    assert (clock.now, clock.idle) == (10**9, 0)


def test_idle_time_is_counted(clock):
    clock.sleep(5)
    assert (clock.now, clock.idle) == (5, 5)


@pytest.mark.parametrize(("seconds", "expected"), [(1e-9, 1), (0.1 + 0.2, 300_000_000), (-1.0, 0)])
def test_whole_nanoseconds(seconds, expected):
    assert nanoseconds(seconds) == expected
