"""Everything that drives, patches or configures Inductor and the C++ compiler."""
