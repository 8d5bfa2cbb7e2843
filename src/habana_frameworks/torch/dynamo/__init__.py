"""torch.compile on hpu, under Gaudi's names."""
