"""Which of how many processes this is: arguments, torchrun's variables, Open MPI's."""

import importlib
import os

import pytest

from openhpu import settings
from openhpu.integration.distributed import launchers

NAMES = ("WORLD_SIZE", "RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "ID", "HLS_MODULE_ID")
NAMES += tuple(f"OMPI_COMM_WORLD_{name}" for name in ("SIZE", "RANK", "LOCAL_RANK"))


@pytest.fixture
def variables(monkeypatch):
    """Sets variables; the others are unset, and all as before afterwards."""
    for name in (*NAMES, "HABANA_VISIBLE_MODULES"):
        monkeypatch.delenv(name, raising=False)
    yield lambda **values: [monkeypatch.setenv(name, value) for name, value in values.items()]
    for name in NAMES:
        os.environ.pop(name, None)


def found():
    return {name: os.environ.get(name) for name in NAMES[:7]}


@pytest.mark.parametrize("given", [(), (1, -1, -1), (None, None, -1), (1, None, None)])
def test_without_a_launcher_there_is_no_rank_and_nothing_is_set(variables, given):
    """Programs test `local_rank != -1`, and may hand on what they got."""
    assert launchers.initialize_distributed_hpu(*given) == (1, -1, -1)
    assert not any(found().values())


def test_minus_one_of_a_launcher_is_no_local_rank(variables):
    variables(WORLD_SIZE="2", RANK="1", LOCAL_RANK="-1")
    assert launchers.initialize_distributed_hpu() == (2, 1, 0)
    variables(LOCAL_RANK="1")
    assert launchers.initialize_distributed_hpu(2, -1, -1) == (2, 1, 1)


def test_one_process_of_torchrun(variables):
    variables(WORLD_SIZE="1", RANK="0", LOCAL_RANK="0")
    assert launchers.initialize_distributed_hpu() == (1, 0, 0)


def test_a_world_of_one_has_no_module_of_its_own(variables):
    variables(WORLD_SIZE="1", RANK="0")
    assert launchers.initialize_distributed_hpu() == (1, 0, 0)
    assert found()["HLS_MODULE_ID"] is None


@pytest.mark.parametrize("names", [("WORLD_SIZE", "RANK", "LOCAL_RANK"), NAMES[7:]], ids=["torchrun", "Open MPI"])
def test_what_a_launcher_says_is_heard_by_the_import_of_hccl(hpu, variables, names):
    hccl = importlib.import_module("habana_frameworks.torch.distributed.hccl")
    variables(**dict(zip(names, "431", strict=True)), MASTER_ADDR="10.0.0.1", MASTER_PORT="29500")
    importlib.reload(hccl)
    assert hccl.initialize_distributed_hpu() == (4, 3, 1)
    assert list(found().values()) == ["4", "3", "1", "10.0.0.1", "29500", "3", "1"]


def test_arguments_go_before_variables(variables):
    variables(WORLD_SIZE="4", RANK="3", LOCAL_RANK="1", OMPI_COMM_WORLD_SIZE="8")
    assert launchers.initialize_distributed_hpu(2, 1, 0) == (2, 1, 0)
    assert found()["WORLD_SIZE"] == "2"


def test_the_local_rank_chooses_among_the_visible_modules(variables):
    variables(WORLD_SIZE="2", RANK="1", LOCAL_RANK="1", HABANA_VISIBLE_MODULES="2,5")
    launchers.initialize_distributed_hpu()
    assert os.environ["HLS_MODULE_ID"] == "5"


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"WORLD_SIZE": "two"}, "WORLD_SIZE='two': expected an integer"),
        ({"OMPI_COMM_WORLD_RANK": "x"}, "OMPI_COMM_WORLD_RANK='x': expected an integer"),
        ({"WORLD_SIZE": "2", "RANK": "2"}, "world_size=2, rank=2, local_rank=0 do not fit"),
        ({"WORLD_SIZE": "2", "RANK": "-1"}, "rank=-1"),
        ({"WORLD_SIZE": "0"}, "world_size=0"),
        ({"WORLD_SIZE": "2", "RANK": "0", "LOCAL_RANK": "3"}, "local_rank=3"),
    ],
)
def test_numbers_that_do_not_fit(variables, values, told):
    variables(**values)
    with pytest.raises(ValueError, match=told):
        launchers.initialize_distributed_hpu()


def test_where_the_ranks_take_free_modules_none_is_chosen_here(variables, monkeypatch):
    monkeypatch.setenv("OPENHPU_MODULE_LOCKS", "1")
    variables(WORLD_SIZE="2", RANK="1", LOCAL_RANK="1")
    assert launchers.initialize_distributed_hpu() == (2, 1, 1)
    assert found()["HLS_MODULE_ID"] is None
    variables(HLS_MODULE_ID="5")
    assert launchers.initialize_distributed_hpu() == (2, 1, 1)
    assert found()["HLS_MODULE_ID"] == "1"
    monkeypatch.delenv("HLS_MODULE_ID")
    with pytest.raises(settings.SettingError, match="LOCAL_RANK=9 has no module"):
        launchers.initialize_distributed_hpu(10, 9, 9)


def test_the_package_itself_hears_what_mpirun_says(script):
    """accelerate looks for LOCAL_RANK, and takes the CPU without it."""
    code = """
import os, sys
import habana_frameworks.torch
print([os.environ.get(name) for name in ("WORLD_SIZE", "RANK", "LOCAL_RANK")])
"""
    place = {"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_LOCAL_RANK": "1"}
    assert script(code, **place).out.splitlines()[-1] == "['2', '1', '1']"
    assert script(code).out.splitlines()[-1] == "[None, None, None]"
