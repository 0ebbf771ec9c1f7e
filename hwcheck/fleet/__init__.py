"""What happens over many runs: which next, is it good enough, who hears of it."""
