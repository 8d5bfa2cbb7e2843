"""Expectations of what a script or a test does on hpu: `openhpu.expect`, and the pytest plugin."""
