"""Rules to findings: the checker, what it found, and every form in which that is told."""
