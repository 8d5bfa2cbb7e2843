"""Names that tools reach for inside Gaudi's package."""
