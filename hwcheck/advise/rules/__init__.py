"""One file for each cause; the folder listing is the registry (see ``docs/diagnosis.md``)."""
