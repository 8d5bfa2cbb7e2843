"""Events and counters, and their readers: logs, metrics, traces, reports, hl-smi."""
