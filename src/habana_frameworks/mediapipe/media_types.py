"""Constants of media pipes."""

from openhpu.interface.media.types import decoderStage, dtype, ftype, imgtype, layout, randomCropType, readerOutType

__all__ = ["decoderStage", "dtype", "ftype", "imgtype", "layout", "randomCropType", "readerOutType"]
