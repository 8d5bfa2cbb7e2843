"""The rank of this process and the number of ranks, from a launcher's variables: torchrun's, or Open MPI's."""

import os

from openhpu.settings import chosen_devices

# Ours, and Open MPI's.
_VARIABLES = (
    ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE"),
    ("RANK", "OMPI_COMM_WORLD_RANK"),
    ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK"),
)
# Without a launcher there are no ranks. Programs test `local_rank != -1` before they call init_process_group.
_NO_LAUNCHER = (1, -1, -1)
_NO_RANK = -1


def initialize_distributed_hpu(
    world_size: int | None = None, rank: int | None = None, local_rank: int | None = None
) -> tuple[int, int, int]:
    """The place of this process in a job: (world size, rank, local rank); (1, -1, -1) without a launcher.

    Arguments go before the variables WORLD_SIZE, RANK and LOCAL_RANK, these before Open MPI's. An argument `rank` or
    `local_rank` of -1 counts as not given, and so does LOCAL_RANK=-1. Where there is a launcher, the variables are
    set, and MASTER_ADDR (localhost), MASTER_PORT (12345) and ID (the rank) unless they are. HLS_MODULE_ID is set where
    the rank decides about the process's module (`setup_module_id`), not where the ranks of the job take free modules
    (`chosen_devices.job_of_process`).

    Raises ValueError for a number that is none or does not fit, SettingError when this process has no module.
    Source: Gaudi's distributed package (gaudi-api 1.4).
    """
    found = list(map(_number, _VARIABLES, (world_size, _given(rank), _given(local_rank))))
    if found[2] == _NO_RANK:
        found[2] = None
    if all(value is None for value in found) or found == [1, None, None]:
        return _NO_LAUNCHER
    places = zip(found, (1, 0, 0), strict=True)
    size, index, local = (least if value is None else value for value, least in places)
    if not (size >= 1 and 0 <= index < size and 0 <= local < size):
        raise ValueError(
            f"initialize_distributed_hpu: world_size={size}, rank={index}, local_rank={local} do not fit; expected a "
            "world size of at least 1 and ranks from 0 to below it"
        )
    if size == 1 and found[2] is None:
        return size, index, local
    os.environ.update({"WORLD_SIZE": str(size), "RANK": str(index), "LOCAL_RANK": str(local)})
    os.environ.setdefault("MASTER_ADDR", "localhost")
    os.environ.setdefault("MASTER_PORT", "12345")
    os.environ["ID"] = str(index)
    if chosen_devices.job_of_process() is None:
        setup_module_id(local)
    else:
        chosen_devices.module_of_rank(local)
    return size, index, local


def _given(rank: int | None) -> int | None:
    return None if rank == _NO_RANK else rank


def setup_module_id(local_rank: int) -> int:
    """Choose the module that this process owns, the local rank's of those that it may see, and return its number.

    Sets HLS_MODULE_ID. Raises SettingError when there are fewer modules than local ranks.
    """
    module = chosen_devices.module_of_rank(local_rank)
    os.environ["HLS_MODULE_ID"] = str(module)
    return module


def _number(names: tuple[str, str], given: int | None) -> int | None:
    if given is not None:
        return int(given)
    for name in names:
        text = os.environ.get(name, "").strip()
        if text:
            try:
                return int(text)
            except ValueError:
                raise ValueError(f"{name}={text!r}: expected an integer") from None
    return None
