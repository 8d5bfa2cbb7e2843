"""DeepSpeed's own launcher starts ranks, each with a module of its own."""

import os
import sys
from pathlib import Path

from tests.distributed.ranks import free_port
from tests.processes import clean_environment, run_file

_SCRIPT = """
import argparse, os, sys, torch, deepspeed
import deepspeed.comm as dist
parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", type=int, default=-1)
deepspeed.add_config_arguments(parser)
args = parser.parse_args()
deepspeed.init_distributed()
net = torch.nn.Linear(4, 4)
settings = {"train_micro_batch_size_per_gpu": 1, "optimizer": {"type": "SGD", "params": {"lr": 0.1}},
            "zero_allow_untested_optimizer": True, "zero_optimization": {"stage": 2}}
engine, *_ = deepspeed.initialize(args=args, model=net, model_parameters=net.parameters(), config=settings)
loss = engine(torch.ones(1, 4, device=engine.device)).square().mean()
engine.backward(loss)
engine.step()
with open(f"rank{dist.get_rank()}", "w") as file:  # both print to one pipe, unbuffered: pieces of lines would mix
    print("of", dist.get_world_size(), engine.device, os.environ["LOCAL_RANK"], file=file)
"""


def test_two_ranks(tmp_path):
    (tmp_path / "train.py").write_text(_SCRIPT)
    start = f"""
        import sys
        from deepspeed.launcher.runner import main
        main(["--num_gpus", "2", "--master_port", "{free_port()}", r"{tmp_path}/train.py"])
    """
    environment = clean_environment(tmp_path, DS_ACCELERATOR="hpu")
    environment["PATH"] = os.pathsep.join((str(Path(sys.executable).parent), environment["PATH"]))
    result = run_file(start, tmp_path, environment, fails=False)
    for rank in range(2):
        assert (tmp_path / f"rank{rank}").read_text() == f"of 2 hpu {rank}\n", result.out
