"""Constants of media pipes."""

from openhpu.media.types import decoderStage, dtype, ftype, imgtype, randomCropType

__all__ = ["decoderStage", "dtype", "ftype", "imgtype", "randomCropType"]
