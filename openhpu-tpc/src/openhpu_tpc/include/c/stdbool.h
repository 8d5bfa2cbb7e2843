// The language has these types.
