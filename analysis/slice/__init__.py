"""The packets that prove a finding, as a small capture."""
