"""Constants of media pipes."""

from openhpu.interface.media.types import decoderStage, dtype, ftype, imgtype, randomCropType

__all__ = ["decoderStage", "dtype", "ftype", "imgtype", "randomCropType"]
