"""The default strategy for several devices."""

from lightning_habana.pytorch.strategies.parallel import HPUParallelStrategy


class HPUDDPStrategy(HPUParallelStrategy):
    """HPUParallelStrategy as "hpu_ddp", with the same arguments."""

    strategy_name = "hpu_ddp"
