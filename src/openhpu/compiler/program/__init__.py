"""From a recorded graph to a functional graph of ATen operators: its description, plan, program and trace."""
