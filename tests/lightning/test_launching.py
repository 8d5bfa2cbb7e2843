"""What is wrong with a job that Lightning starts ends each of its ranks, with the cause."""

from tests.distributed.launched import check_port, ended
from tests.distributed.ranks import free_port

FIT = """
import os
if os.environ.get("LOCAL_RANK") == "1" and {dies}:
    raise ImportError("no module of mine")
import torch
from lightning.pytorch import Trainer
from lightning.pytorch.demos.boring_classes import BoringModel

class Model(BoringModel):
    def train_dataloader(self):
        return torch.utils.data.DataLoader(torch.ones({batches}, 32))

Trainer(
    accelerator="hpu", devices=2, max_epochs=1, use_distributed_sampler=False, logger=False,
    enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
).fit(Model())
"""
BATCHES = "4 - 2 * int(os.environ.get('LOCAL_RANK', '0'))"


def test_a_port_in_use(tmp_path):
    done = ended(tmp_path, ["job.py"], job=FIT.replace("{batches}", "4"), MASTER_PORT="PORT")
    check_port(done)
    assert "rank 1 ends, since the process that started it has ended" in done.output


def test_a_rank_that_dies_at_import(tmp_path):
    done = ended(tmp_path, ["job.py"], dies=True, job=FIT.replace("{batches}", "4"), MASTER_PORT="PORT")
    assert "ImportError: no module of mine" in done.output
    assert "[rank: 1] Child process with PID" in done.output


def test_unequal_numbers_of_batches(tmp_path):
    job = FIT.replace("{batches}", BATCHES)
    done = ended(tmp_path, ["job.py"], job=job, MASTER_PORT=str(free_port()))
    assert "failed on rank 0 of 2" in done.output and "has ended, or has left the group" in done.output
