"""What a site adds beside its inventory: checks, models of GPUs, rules of diagnosis, templates."""
