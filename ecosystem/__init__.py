"""Other people's tests on hpu: released libraries, unchanged, each in an environment of its own."""
