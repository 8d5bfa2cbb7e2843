"""The part of the compiler in the script's process: it asks for recipes, keeps them, and tells of waits."""
