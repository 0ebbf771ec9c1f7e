"""One visit to one host: how to get there, what runs there, what comes back."""
