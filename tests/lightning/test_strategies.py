"""Processes that Lightning starts itself, and what scripts ask of strategies."""

import importlib
import importlib.util


def test_two_devices_of_a_script(script, tmp_path):
    printed = script("""
        import os
        import sys
        import torch
        from lightning.pytorch import Trainer
        from lightning.pytorch.demos.boring_classes import BoringModel

        trainer = Trainer(
            devices=2, max_steps=3, logger=False, enable_checkpointing=False, enable_progress_bar=False,
            enable_model_summary=False,
        )
        model = BoringModel()
        trainer.fit(model)
        x = torch.ones(1, device="hpu") * trainer.global_rank
        with open(f"rank{trainer.global_rank}", "w") as file:
            weights = [p.sum().item() for p in model.parameters()]
            print(os.environ["HLS_MODULE_ID"], os.environ["LOCAL_WORLD_SIZE"], weights, file=file)
        trainer.fit(model)  # again, in the same processes
        strategy = trainer.strategy
        sys.stdout.write(f"{type(strategy).__name__} {strategy.root_device} {trainer.world_size}\\n")
    """)
    assert printed.out.splitlines() == ["HPUDDPStrategy hpu:0 2"] * 2
    (first, *rest), (second, *same) = (tmp_path.joinpath(f"rank{rank}").read_text().split() for rank in range(2))
    assert (first, second) == ("0", "1")
    assert rest == same
    assert rest[0] == "2"


def test_whether_deepspeed_is_there_under_the_name_that_scripts_ask_for():
    there = importlib.util.find_spec("deepspeed") is not None
    for name in ("strategies", "pytorch.strategies", "fabric.strategies"):
        assert there == importlib.import_module(f"lightning_habana.{name}.deepspeed")._DEEPSPEED_AVAILABLE
