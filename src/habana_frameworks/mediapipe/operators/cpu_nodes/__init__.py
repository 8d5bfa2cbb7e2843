"""See `openhpu.media`."""
