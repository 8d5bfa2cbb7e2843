import os

import pytest

from openhpu import settings
from openhpu.settings import chosen_devices
from openhpu.settings.kinds import MAX_MODULES

NODE = tuple(range(8))


@pytest.fixture
def cores(environment, monkeypatch):
    """Set the number of cores that settings see, and the environment."""

    def set_only(number, **variables):
        environment(**variables)
        monkeypatch.setattr(chosen_devices, "usable_cores", lambda: number)

    return set_only


@pytest.mark.parametrize("number", [1, 2, 64])
@pytest.mark.parametrize(
    ("variables", "modules", "visible", "count"),
    [
        # A process that chose none: as many devices as cores.
        ({}, NODE, 8, "cores"),
        ({"LOCAL_RANK": "-1"}, NODE, 8, "cores"),
        ({"OPENHPU_DEVICE_COUNT": "3"}, (0, 1, 2), 3, 3),
        ({"OPENHPU_DEVICE_COUNT": "64"}, tuple(range(64)), 64, 64),
        # Modules that were chosen.
        ({"HABANA_VISIBLE_MODULES": "3"}, (3,), 1, 1),
        ({"HABANA_VISIBLE_MODULES": "5,2", "OPENHPU_DEVICE_COUNT": "3"}, (5, 2), 2, 2),
        ({"HABANA_VISIBLE_MODULES": "5,2", "LOCAL_RANK": "1"}, (2,), 2, 2),
        ({"LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"}, (1,), 8, 4),
        ({"LOCAL_RANK": "1"}, (1,), 8, 2),
        ({"LOCAL_RANK": "7", "LOCAL_WORLD_SIZE": "200"}, (7,), 64, 64),
        ({"LOCAL_RANK": "0", "OPENHPU_DEVICE_COUNT": "2"}, (0,), 2, 2),
        ({"HLS_MODULE_ID": "6"}, (6,), 8, 1),
        ({"HLS_MODULE_ID": "6", "LOCAL_RANK": "0", "HABANA_VISIBLE_MODULES": "1,2"}, (6,), 2, 2),
        ({"HLS_MODULE_ID": "6", "LOCAL_RANK": "9"}, (6,), 10, 10),
    ],
)
def test_modules_of_a_process(cores, number, variables, modules, visible, count):
    cores(number, **variables)
    setup = settings.device_setup()
    chose_none = variables in ({}, {"LOCAL_RANK": "-1"}) or [*variables] == ["OPENHPU_DEVICE_COUNT"]
    assert setup.floating == chose_none
    assert (setup.modules, setup.visible) == (modules, visible)
    assert setup.device_count == (min(8, number) if count == "cores" else count)


@pytest.mark.parametrize(
    ("variables", "text"),
    [
        (
            {"HABANA_VISIBLE_MODULES": "0,1", "LOCAL_RANK": "2"},
            "2 has no module: HABANA_VISIBLE_MODULES=0,1 lists 2. Start fewer processes or list more modules.",
        ),
        (
            {"LOCAL_RANK": "8"},
            "8 has no module: this machine has 8, numbers 0 to 7. Start fewer processes or raise OPENHPU_DEVICE_COUNT.",
        ),
    ],
)
def test_a_rank_without_a_module(environment, variables, text):
    environment(**variables)
    with pytest.raises(settings.SettingError) as error:
        settings.device_setup()
    assert str(error.value) == f"LOCAL_RANK={text}"


RAY = "RAY_RAYLET_PID"


@pytest.mark.parametrize(
    ("variables", "module"),
    [
        ({"LOCAL_RANK": "1", "HABANA_VISIBLE_MODULES": "5", RAY: "parent"}, 5),
        ({"LOCAL_RANK": "3", "HABANA_VISIBLE_MODULES": "6,7", RAY: "parent"}, 6),
        # vLLM's workers of a node have the same list.
        ({"LOCAL_RANK": "1", "HABANA_VISIBLE_MODULES": "5,2", RAY: "parent"}, 2),
        ({"LOCAL_RANK": "1", RAY: "parent"}, 1),
        # A launcher that a worker started, one that says nothing of Ray, and a list that Ray left as it was.
        ({"LOCAL_RANK": "1", "HABANA_VISIBLE_MODULES": "5", RAY: "another"}, None),
        ({"LOCAL_RANK": "1", "HABANA_VISIBLE_MODULES": "5"}, None),
        (
            {
                "LOCAL_RANK": "1",
                "HABANA_VISIBLE_MODULES": "5",
                RAY: "parent",
                "RAY_EXPERIMENTAL_NOSET_HABANA_VISIBLE_MODULES": "1",
            },
            None,
        ),
    ],
)
def test_ray_lists_the_modules_of_each_worker(environment, monkeypatch, variables, module):
    """Ray's worker knows its local rank, and HABANA_VISIBLE_MODULES has only what Ray gave to that worker."""
    environment(**{name: value for name, value in variables.items() if not name.startswith("RAY")})
    numbers = {"parent": str(os.getppid()), "another": str(os.getpid())}
    for name, value in variables.items():
        if name.startswith("RAY"):
            monkeypatch.setenv(name, numbers.get(value, value))
    if module is None:
        with pytest.raises(settings.SettingError, match="LOCAL_RANK=1 has no module"):
            settings.device_setup()
    else:
        assert settings.device_setup().modules == (module,)


def test_a_machines_modules_do_not_depend_on_the_launcher(environment):
    environment(LOCAL_RANK="9", HLS_MODULE_ID="3")
    assert settings.machine_modules() == NODE
    environment(HABANA_VISIBLE_MODULES="4,1")
    assert settings.machine_modules() == (4, 1)


JOB = {"LOCAL_RANK": "1", "MASTER_ADDR": "localhost", "MASTER_PORT": "29500"}


@pytest.mark.parametrize(
    ("variables", "size"),
    [
        (JOB, 2),
        (JOB | {"LOCAL_WORLD_SIZE": "4"}, 4),  # torchrun
        (JOB | {"LOCAL_SIZE": "3", "CROSS_RANK": "0"}, 3),  # DeepSpeed's launcher
        (JOB | {"OMPI_COMM_WORLD_LOCAL_SIZE": "5"}, 5),
        ({"LOCAL_RANK": "1"}, 2),
    ],
)
def test_the_processes_of_a_launcher_are_a_job(environment, variables, size):
    environment(**variables)
    setup = settings.device_setup()
    assert (setup.job_rank, setup.job_size, setup.machine) == (1, size, NODE)
    assert setup.job.isalnum()
    environment(**variables | {"LOCAL_RANK": "0", "RANK": "3"})
    assert settings.device_setup().job == setup.job


@pytest.mark.parametrize(
    "more",
    [{"MASTER_PORT": "29501"}, {"TORCHELASTIC_RUN_ID": "x"}, {"GROUP_RANK": "1"}, {"CROSS_RANK": "1"}],
)
def test_what_distinguishes_jobs(environment, more):
    environment(**JOB)
    name = settings.device_setup().job
    environment(**JOB | more)
    assert settings.device_setup().job != name


@pytest.mark.parametrize(
    "more",
    [
        {"LOCAL_RANK": "-1"},
        {"HABANA_VISIBLE_MODULES": "0,1"},
        {"HLS_MODULE_ID": "1"},
        {"OPENHPU_STRICT": "gaudi"},
        {"OPENHPU_MODULE_LOCKS": "0"},
    ],
)
def test_where_there_is_no_job(environment, more):
    environment(**JOB | more)
    assert settings.device_setup().job == ""


def test_the_core_has_room_for_every_module(hpu):
    from openhpu import _C

    assert _C.MAX_DEVICES == MAX_MODULES
    setup = {
        "floating": False,
        "machine": [],
        "job": "",
        "job_rank": 0,
        "job_size": 1,
        "visible": 0,
        "module_wait_s": 0.0,
        "memory_bytes": 1 << 30,
        "protect_memory": False,
        "lock_modules": False,
        "spin_us": 0,
        "processes": 1,
    }
    numbers = [list(range(65)), [64], [-1], [0, 0]]
    for modules, text in zip(numbers, ["but is 65", "not 64", "not -1", "named twice"], strict=True):
        with pytest.raises(ValueError, match=text):
            _C.configure(modules=modules, **setup)
    with pytest.raises(ValueError, match="a process of a job has one HPU module"):
        _C.configure(modules=[0, 1], **{**setup, "job": "a", "machine": [0, 1]})
    with pytest.raises(RuntimeError, match="64 at most"):
        _C.configure(modules=[0], **{**setup, "visible": 65})


@pytest.mark.parametrize(
    ("variables", "gib"),
    [
        ({"OPENHPU_MEMORY_GB": "2"}, 2),
        ({"OPENHPU_MEMORY_GB": "0.5"}, 0.5),
        ({"OPENHPU_MEMORY_GB": "2", "PT_HPU_POOL_MEM_ACQUIRE_PERC": "50"}, 1),
        ({"OPENHPU_MEMORY_GB": "8", "PT_HABANA_POOL_SIZE": "3"}, 3),
        ({"OPENHPU_MEMORY_GB": "32", "PT_HABANA_POOL_SIZE": "24"}, 32),
    ],
)
def test_memory(environment, variables, gib):
    environment(**variables)
    assert settings.device_setup().memory_bytes == gib * 2**30
