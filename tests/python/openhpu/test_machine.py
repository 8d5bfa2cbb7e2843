"""The memory and the cores that a machine has for a device, from made-up files."""

import os

import pytest

from openhpu._machine import device_memory, usable_cores

MIB = 1 << 20


@pytest.fixture
def machine(tmp_path):
    """`machine(path=text, ...)` writes files; the root folder."""

    def write(files):
        for path, text in files.items():
            file = tmp_path / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(str(text))
        return str(tmp_path)

    return write


def info(total, available):
    return {"proc/meminfo": f"MemTotal: {total << 10} kB\nMemFree: 1 kB\nMemAvailable: {available << 10} kB\n"}


def test_a_part_of_what_is_available_is_the_hosts(machine):
    assert device_memory(machine(info(8192, 4096))) == (4096 - 512) * MIB


@pytest.mark.parametrize(("total", "kept"), [(1024, 128), (65536, 2048)])
def test_that_part_is_bounded(machine, total, kept):
    assert device_memory(machine(info(total, 1000 + kept))) == 1000 * MIB


def test_a_control_group_of_version_2(machine):
    files = {
        "proc/self/cgroup": "0::/outer/inner\n",
        "sys/fs/cgroup/outer/inner/memory.max": "max\n",
        "sys/fs/cgroup/outer/memory.max": 4096 * MIB,
        "sys/fs/cgroup/outer/memory.current": 1000 * MIB,
        "sys/fs/cgroup/outer/memory.stat": f"anon 7\ninactive_file {300 * MIB}\nactive_file {200 * MIB}\n",
    }
    assert device_memory(machine(info(8192, 8000) | files)) == (4096 - 600 - 256) * MIB


def test_a_control_group_of_version_1(machine):
    files = {
        "proc/self/cgroup": "5:cpu:/a\n4:hugetlb,memory:/a/b\n0::/\n",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": 9223372036854771712,
        "sys/fs/cgroup/memory/a/b/memory.limit_in_bytes": 2048 * MIB,
        "sys/fs/cgroup/memory/a/b/memory.usage_in_bytes": 512 * MIB,
        "sys/fs/cgroup/memory/a/b/memory.stat": f"inactive_file 7\ntotal_inactive_file {50 * MIB}\n",
    }
    assert device_memory(machine(info(8192, 8000) | files)) == (2048 - 462 - 128) * MIB


@pytest.mark.parametrize(("used", "left"), [(24, 1000 - 128), (2000, 64)])  # the second one is over its limit
def test_a_container_sees_its_group_as_the_root(machine, used, left):
    files = {"proc/self/cgroup": "0::/not/visible\n", "sys/fs/cgroup/memory.max": 1024 * MIB}
    files["sys/fs/cgroup/memory.current"] = used * MIB
    assert device_memory(machine(info(8192, 8000) | files)) == left * MIB


def test_a_full_machine_has_a_device_all_the_same(machine):
    assert device_memory(machine(info(8192, 10))) == 64 * MIB


def test_this_machine():
    assert device_memory() >= 64 * MIB


ALLOWED = len(os.sched_getaffinity(0))
VERSION_2 = "sys/fs/cgroup/slice/job/cpu.max"
VERSION_1 = "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_"


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({}, ALLOWED),
        *(
            ({VERSION_2: text}, ALLOWED)
            for text in ("max 100000", "", "x y", "max", "-1 0", "1e99 1", "100000000 100000")
        ),
        ({VERSION_2: "150000 100000"}, min(2, ALLOWED)),
        *(({VERSION_2: text}, 1) for text in ("140000 100000", "20000 100000")),
        ({VERSION_2: "max 100000", "sys/fs/cgroup/slice/cpu.max": "100000 100000"}, 1),
        ({"sys/fs/cgroup/cpu.max": "100000 100000"}, 1),  # as a container has it
        ({VERSION_1 + "quota_us": 100000, VERSION_1 + "period_us": 100000}, 1),
        ({VERSION_1 + "quota_us": -1, VERSION_1 + "period_us": 100000}, ALLOWED),
    ],
)
def test_cores_of_a_quota(machine, files, cores):
    version_1 = any(file.startswith(VERSION_1) for file in files)
    groups = "3:memory:/job\n2:cpu,cpuacct:/job\n" if version_1 else "0::/slice/job\n"
    assert usable_cores(1, machine({"proc/self/cgroup": groups} | files)) == cores


def test_cores_are_shared_by_the_processes_of_a_launcher(machine):
    found = [usable_cores(processes, machine({})) for processes in (0, 2, 1000)]
    assert found == [ALLOWED, max(1, ALLOWED // 2), 1]
