"""Which Lightning is extended, and when."""

QUIET = "logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False"


def test_no_import_is_needed(script):
    printed = script(f"""
        from lightning import Trainer
        import sys

        assert "lightning_habana" not in sys.modules
        print(type(Trainer(devices=1, {QUIET}).strategy).__name__)
    """).out
    assert printed == "SingleHPUStrategy"


def test_importing_it_first(script):
    printed = script(f"""
        import lightning_habana
        from lightning.pytorch import Trainer
        import sys

        assert "pytorch_lightning" not in sys.modules
        print(type(Trainer(devices=1, accelerator=lightning_habana.HPUAccelerator(), {QUIET}).strategy).__name__)
    """).out
    assert printed == "SingleHPUStrategy"


def test_the_other_distribution(script):
    printed = script(f"""
        import pytorch_lightning as pl
        from pytorch_lightning.demos.boring_classes import BoringModel
        import lightning_habana

        trainer = pl.Trainer(devices=1, precision="bf16-mixed", fast_dev_run=2, {QUIET})
        trainer.fit(BoringModel())
        print(trainer.strategy.root_device, trainer.global_step)

        from lightning import Fabric, Trainer  # a script that mixes the two

        for made in (Trainer, Fabric):
            for accelerator in ("auto", "hpu", lightning_habana.HPUAccelerator()):
                try:
                    made(accelerator=accelerator)
                except Exception as error:
                    print(type(error).__name__, "Import all from pytorch_lightning" in str(error))
        print(type(Trainer(accelerator="cpu", {QUIET}).strategy).__name__)
    """).out
    assert printed.splitlines() == ["hpu 2", *["MisconfigurationException True"] * 6, "SingleDeviceStrategy"]
