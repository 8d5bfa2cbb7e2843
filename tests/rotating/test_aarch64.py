"""The C++ tests on an emulated 64-bit Arm processor, where a cross compiler and QEMU are installed."""

import pytest

from commands import ROOT, child
from commands.budget import Budget
from release import cross
from tests.cpp.run import build_and_test
from tests.rotating.shards import LIMIT_S

FOLDER = "build/cpp-aarch64"
# What QEMU 7.2 does not emulate.
TIMES = "QEMU shows a process another start than its children see"
LEFT_OUT = {
    "CommandQueue.AnInheritedQueueIsDestroyedWithoutHanging": "a forked child that starts a thread aborts in QEMU",
    "DeviceRegistry.AFailedOpeningCanBeRepeated": TIMES,
    "MemoryPool.CapacityMayExceedTheMachine": "QEMU notes each page of 4 TiB, for minutes",
    "ModuleLock.WhereAllAreTakenTheErrorNamesEachHolder": TIMES,
}


@pytest.fixture(scope="module", autouse=True)
def built():
    if absent := cross.missing(cross.COMPILER, cross.EMULATOR):
        pytest.skip(absent)
    with Budget("aarch64", LIMIT_S / 60) as budget:
        left_out = "^(" + "|".join(LEFT_OUT).replace(".", r"\.") + ")$"
        return build_and_test(budget, FOLDER, cross.OPTIONS, ["--exclude-regex", left_out])


def test_the_device(built):
    assert built


@pytest.mark.parametrize("page", [16384, 65536])
def test_larger_pages(page):
    chosen = "--gtest_filter=MemoryPool.*:-" + ":".join(LEFT_OUT)
    argv = [cross.EMULATOR, "-p", str(page), "-L", cross.LIBRARIES, f"{FOLDER}/tests/cpp/device_tests", chosen]
    ended = child.run(argv, cwd=ROOT, seconds=LIMIT_S)
    assert ended.code == 0, ended.output
    assert "[  PASSED  ]" in ended.output
