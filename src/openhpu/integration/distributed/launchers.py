"""The rank of this process and the number of ranks, from a launcher's variables: torchrun's, or Open MPI's."""

import os

from openhpu.settings import chosen_devices

# Ours, and Open MPI's.
_VARIABLES = (
    ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE"),
    ("RANK", "OMPI_COMM_WORLD_RANK"),
    ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK"),
)
_ALONE = (1, 0, 0)


def initialize_distributed_hpu(
    world_size: int | None = None, rank: int | None = None, local_rank: int | None = None
) -> tuple[int, int, int]:
    """The place of this process in a job: (world size, rank, local rank); (1, 0, 0) without a launcher.

    Arguments go before the variables WORLD_SIZE, RANK and LOCAL_RANK, these before Open MPI's. Where there is a
    launcher, the variables are set, and MASTER_ADDR (localhost), MASTER_PORT (12345) and ID (the rank) unless they
    are, and the process's module is chosen: see `setup_module_id`.

    Raises ValueError for a number that is none or does not fit, SettingError when this process has no module.
    Source: Gaudi's distributed package (gaudi-api 1.4).
    """
    found = list(map(_number, _VARIABLES, (world_size, rank, local_rank)))
    if all(value is None for value in found):
        return _ALONE
    size, index, local = (alone if value is None else value for value, alone in zip(found, _ALONE, strict=True))
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
    setup_module_id(local)
    return size, index, local


def setup_module_id(local_rank: int) -> int:
    """Choose the module that this process owns, the local rank's of those that it may see, and return its number.

    Sets HLS_MODULE_ID. Raises SettingError when there are fewer modules than local ranks.
    """
    modules = chosen_devices.machine_modules()
    if not 0 <= local_rank < len(modules):
        raise chosen_devices.no_module(local_rank, modules)
    os.environ["HLS_MODULE_ID"] = str(modules[local_rank])
    return modules[local_rank]


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
