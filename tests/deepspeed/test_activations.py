"""Activation checkpointing, in each of its forms, changes no gradient; it saves memory."""

import types

import pytest
import torch
import torch.distributed as dist

from tests.deepspeed import training


def all_ranks():
    """A model parallel group of all ranks, with the methods that DeepSpeed asks for: activations are parted in it."""
    size = dist.get_world_size()
    group, *alone = (dist.new_group(members) for members in (list(range(size)), *([rank] for rank in range(size))))
    return types.SimpleNamespace(
        get_model_parallel_rank=dist.get_rank,
        get_model_parallel_world_size=lambda: size,
        get_model_parallel_group=lambda: group,
        get_data_parallel_rank=lambda: 0,
        get_data_parallel_world_size=lambda: 1,
        get_data_parallel_group=lambda: alone[dist.get_rank()],
    )


def gradients(options, parallel):
    """Gradients with and without, and the most memory that each needed."""
    with training.deepspeed_alone() as deepspeed:
        accelerator = deepspeed.accelerator.get_accelerator()
        net = training.model(layers=4, width=64).to(accelerator.device_name())
        numbers = torch.arange(8 * 16).view(8, 16).remainder(training.CHARACTERS).to(accelerator.device_name())
        settings = {"partition_activations": False, "contiguous_checkpointing": False} | options
        deepspeed.checkpointing.configure(all_ranks() if parallel else None, num_checkpoints=4, **settings)
        found = []
        for checkpointed in (False, True):
            net.zero_grad()
            accelerator.synchronize()
            accelerator.reset_peak_memory_stats()
            base = accelerator.memory_allocated()
            positions = torch.arange(16, device=numbers.device)
            x = net.token(numbers) + net.position(positions)
            for block in net.blocks:
                x = deepspeed.checkpointing.checkpoint(block, x) if checkpointed else block(x)
            net.head(net.norm(x)).square().mean().backward()
            deepspeed.checkpointing.reset()
            accelerator.synchronize()
            peak = accelerator.max_memory_allocated() - base
            found.append(([p.grad.cpu().numpy() for p in net.parameters()], peak))
        return found


FORMS = {
    "plain": {},
    "in host memory": {"partition_activations": True, "checkpoint_in_cpu": True},
    "parted": {"partition_activations": True},
    "parted, contiguous": {"partition_activations": True, "contiguous_checkpointing": True},
    "parted, contiguous, in host memory": dict.fromkeys(
        ("partition_activations", "contiguous_checkpointing", "checkpoint_in_cpu"), True
    ),
    "with waits and times": {"synchronize": True, "profile": True},
}


@pytest.mark.parametrize("parallel", [False, True], ids=["alone", "two ranks"])
@pytest.mark.parametrize("form", FORMS)
def test_gradients_are_the_same(form, parallel):
    for (plain, more), (checkpointed, less) in training.on_hpu(gradients, FORMS[form], parallel):
        torch.testing.assert_close(checkpointed, plain, rtol=1e-5, atol=1e-7)
        assert less < more


def dropped():
    """Whether a recomputation draws what the first one drew: gradients with and without checkpointing."""
    with training.deepspeed_alone() as deepspeed:
        layer = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.Dropout(0.5), torch.nn.Linear(64, 16))
        layer = layer.to("hpu")
        x = torch.ones(4, 16, device="hpu", requires_grad=True)
        deepspeed.checkpointing.configure(all_ranks(), partition_activations=False)
        deepspeed.checkpointing.model_parallel_cuda_manual_seed(3)
        found = []
        for checkpointed in (False, True):
            torch.hpu.manual_seed(5)
            layer.zero_grad()
            out = deepspeed.checkpointing.checkpoint(layer, x) if checkpointed else layer(x)
            out.square().sum().backward()
            found.append([p.grad.cpu().tolist() for p in layer.parameters()])
        return found


def test_dropout_is_drawn_again():
    for plain, checkpointed in training.on_hpu(dropped):
        assert plain == checkpointed
