"""Gaudi's media pipes: see `openhpu.interface.media.pipe`."""
