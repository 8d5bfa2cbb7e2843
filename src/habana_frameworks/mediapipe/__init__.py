"""Gaudi's media pipes: see `openhpu.media.pipe`."""
