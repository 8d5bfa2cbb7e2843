import pytest

from openhpu import settings


@pytest.mark.parametrize(
    ("variables", "modules", "visible"),
    [
        ({}, (0,), 1),
        ({"OPENHPU_DEVICE_COUNT": "3"}, (0, 1, 2), 3),
        ({"HABANA_VISIBLE_MODULES": "5,2", "OPENHPU_DEVICE_COUNT": "3"}, (5, 2), 2),
        ({"HABANA_VISIBLE_MODULES": "5,2", "LOCAL_RANK": "1"}, (2,), 2),
        ({"LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"}, (1,), 4),
        ({"LOCAL_RANK": "1"}, (1,), 2),
        ({"LOCAL_RANK": "-1"}, (0,), 1),
        ({"LOCAL_RANK": "0", "OPENHPU_DEVICE_COUNT": "2"}, (0,), 2),
        ({"HLS_MODULE_ID": "6"}, (6,), 1),
        ({"HLS_MODULE_ID": "6", "LOCAL_RANK": "0", "HABANA_VISIBLE_MODULES": "1,2"}, (6,), 2),
    ],
)
def test_modules(environment, variables, modules, visible):
    environment(**variables)
    setup = settings.device_setup()
    assert setup.modules == modules
    assert setup.visible == visible


def test_a_rank_without_a_module(environment):
    environment(HABANA_VISIBLE_MODULES="0,1", LOCAL_RANK="2")
    with pytest.raises(settings.SettingError, match="LOCAL_RANK=2 has no module: HABANA_VISIBLE_MODULES=0,1 lists 2"):
        settings.device_setup()


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


def test_memory_of_the_machine_by_default(environment):
    assert settings.device_setup().memory_bytes > 0
