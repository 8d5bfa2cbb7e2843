"""See `openhpu.interface.media`."""
