"""The peers: each a contestant that runs in an environment of its own (environment.py), where turnlog is not."""
