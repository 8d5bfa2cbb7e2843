"""The interface for Gaudi's scripts: torch.hpu, torch.ops.hpu, hpex, mixed precision, inference mode, media."""
