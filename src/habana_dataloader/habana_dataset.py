"""Gaudi's datasets of images. Needs torchvision."""

from torchvision.datasets import ImageFolder


class ImageFolderWithManifest(ImageFolder):
    """torchvision.datasets.ImageFolder, with its arguments. A manifest of the folder's files, which a first Gaudi's
    decoder reads, is not written: nothing here would read it."""


__all__ = ["ImageFolderWithManifest"]
