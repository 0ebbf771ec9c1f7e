"""One file for each theme: the causes that compete for one symptom (see ``docs/diagnosis.md``)."""
