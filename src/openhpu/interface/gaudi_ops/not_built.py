"""Operators that scripts and libraries name and that are not built, each with its reason."""

REFUSED: dict[str, str] = {
    "softmax_fa2": "three of its results lie in a layout of the hardware's own, which callers take apart by hand",
    "block_softmax_const_max": "no public description of its arguments; use block_softmax and its adjustment",
    "cast_to_fp8_just_in_time": "no public description of its arguments; use calculate_scale_for_cast, cast_to_fp8_v2",
    "habana_poisson": "its draws need a loop of unknown length for each number; use torch.poisson",
    "roi_align_fwd": "use torchvision.ops.roi_align, which runs on hpu",
    "roi_align_bwd": "use torchvision.ops.roi_align, which runs on hpu and has a gradient",
    "habana_nms": "its results are padded for the hardware; use torchvision.ops.nms, which runs on hpu",
    "batched_nms": "its results are padded for the hardware; use torchvision.ops.batched_nms, which runs on hpu",
}
