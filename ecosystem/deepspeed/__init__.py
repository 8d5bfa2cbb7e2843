"""Every stage of ZeRO with every offload, precision and number of ranks."""
