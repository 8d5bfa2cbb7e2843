"""What happened: events and counters, and what reads them: logs, metrics, traces, reports, hl-smi."""
