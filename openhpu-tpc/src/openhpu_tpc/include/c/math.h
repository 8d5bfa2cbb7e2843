// The language has what this header declares, where it is there.
