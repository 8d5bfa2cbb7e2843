"""vLLM serves models on hpu, and the CPU checks the tokens."""
