"""Images on their way to the device: decoded by Pillow (libjpeg-turbo) on threads, without Python's lock."""
