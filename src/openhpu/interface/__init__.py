"""What Gaudi's scripts see: torch.hpu, torch.ops.hpu, hpex, mixed precision, inference mode, media."""
