"""Commands that need the analysis. Arguments and output only."""
