"""Two jobs on one machine, each with modules of its own."""

import subprocess
import sys

from tests.distributed.ranks import free_port
from tests.lightning.conftest import environment_of

JOB = """
import os
import sys
from lightning.pytorch import Trainer
from lightning.pytorch.demos.boring_classes import BoringModel

trainer = Trainer(
    accelerator="hpu", devices="auto", max_steps=2, logger=False, enable_checkpointing=False,
    enable_progress_bar=False, enable_model_summary=False,
)
trainer.fit(BoringModel())
sys.stdout.write(f"module {os.environ['HLS_MODULE_ID']} of {trainer.world_size}\\n")  # whole: two processes write
"""


def test_two_at_once(tmp_path):
    (tmp_path / "job.py").write_text(JOB)
    jobs = [
        subprocess.Popen(
            [sys.executable, "job.py"],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment_of(tmp_path, OPENHPU_MODULE_LOCKS="1", XDG_RUNTIME_DIR=str(tmp_path))
            | {"HABANA_VISIBLE_MODULES": modules, "MASTER_PORT": str(free_port()), "OMP_NUM_THREADS": "1"},
        )
        for modules in ("0,1", "4,5")
    ]
    printed = [job.communicate(timeout=300)[0] for job in jobs]
    assert [job.returncode for job in jobs] == [0, 0], printed
    for text, modules in zip(printed, ("01", "45"), strict=True):
        lines = sorted(line for line in text.splitlines() if line.startswith("module"))
        assert lines == [f"module {module} of 2" for module in modules]


FAILS = """
import os
from lightning.pytorch import Trainer
from lightning.pytorch.demos.boring_classes import BoringModel
from lightning_habana import HPUDDPStrategy

class Fails(HPUDDPStrategy):
    def setup_environment(self):
        if self.global_rank == 0:
            os._exit(3)
        super().setup_environment()

Trainer(accelerator="hpu", devices=2, strategy=Fails(), logger=False, enable_checkpointing=False).fit(BoringModel())
"""


def test_a_rank_ends_when_the_process_that_started_it_has_ended(tmp_path):
    (tmp_path / "job.py").write_text(FAILS)
    environment = environment_of(tmp_path) | {"MASTER_PORT": str(free_port())}
    done = subprocess.run(  # until the pipe is closed, which rank 1 has inherited
        [sys.executable, "job.py"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
        timeout=120,
    )
    assert done.returncode == 3
    assert "Fails: rank 1 ends, since the process that started it has ended" in done.stdout
