"""`from media_pipe_api import MetadataOps`: where programs for a Gaudi find what SSDMetadata does with boxes."""

from openhpu.interface.media.types import MetadataOps as MetadataOps
