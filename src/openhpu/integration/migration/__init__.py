"""Scripts written for CUDA on hpu: `habana_frameworks.torch.gpu_migration`, and PT_HPU_GPU_MIGRATION=1.

One table says what becomes of each CUDA name: `integration/data/cuda-names.tsv`, read by `cuda_names`. `installation`
puts the rows into PyTorch, and takes them out again. Nothing else in this folder changes PyTorch.
"""
