"""From findings to causes: rules that join what was found on a host into what is wrong with it."""
