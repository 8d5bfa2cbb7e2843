"""vLLM's Gaudi plugin on a virtual clock: `openhpu serve-sim`; see docs/serving-simulation.md."""
