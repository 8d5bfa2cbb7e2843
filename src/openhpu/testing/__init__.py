"""Expectations of the work of a script or a test on hpu: `openhpu.expect`, and the pytest plugin."""
