"""Several cards in one process, without vLLM."""

import dataclasses
from types import SimpleNamespace

import pytest
import torch.distributed as dist

import openhpu_predict
from openhpu_predict.errors import PredictError
from openhpu_predict.serving.cards import Cards


@pytest.fixture
def cards():
    found = Cards(openhpu_predict.load("gaudi2"))
    yield found
    found._group.close()


def options(size, backend=None):
    return SimpleNamespace(
        tensor_parallel_size=size,
        pipeline_parallel_size=1,
        data_parallel_size=1,
        distributed_executor_backend=backend,
    )


@pytest.mark.parametrize("count", [12, 9])
def test_number_of_cards_that_no_nodes_have(cards, count):
    with pytest.raises(PredictError, match=f"--tensor-parallel-size is {count}; expected 1 to 8"):
        cards.begin(count)


def test_cards_of_a_device_without_links():
    alone = dataclasses.replace(openhpu_predict.load("gaudi2"), name="alone", port_bandwidth=0.0)
    Cards(alone).begin(1)
    with pytest.raises(PredictError, match="alone has no links"):
        Cards(alone).begin(2)


@pytest.mark.parametrize(("count", "nodes"), [(8, 1), (16, 2)])
def test_tensor_parallelism_gets_one_process_of_many_ranks(cards, count, nodes):
    given = options(count)
    assert cards.engine_config(lambda made: made.distributed_executor_backend)(given) == "external_launcher"
    dist.init_process_group("hccl")
    assert (dist.get_world_size(), dist.get_rank()) == (count, 0)
    assert cards.node_count(None)(dist.group.WORLD) == nodes
    assert cards.broadcaster(None)(dist.group.WORLD, 1, 1) is None


def test_one_card_is_as_vllm_has_it(cards):
    given = options(1)
    assert cards.engine_config(lambda made: made.distributed_executor_backend)(given) is None
    assert cards.node_count(lambda group: 7)("group") == 7
    assert cards.broadcaster(lambda *given: given)(1, 2) == (1, 2)
    assert cards.environment(lambda *given: given)("config", 0) is None
    assert not dist.is_initialized()
