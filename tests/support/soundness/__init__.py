"""The property that verdicts are sound: damage to a capture never makes a finding that the whole capture does not have.

``python -m tests.support.soundness --help`` runs it. A recording is read into packets (``captures``), split into its
connections, and changed by transformations that mean nothing to the protocol: what networks and recorders do
(``damage``), and the same conversation seen elsewhere or sent in other packets (``retiming``, ``segmenting``). The
findings of the changed capture are brought back to bytes of the original one and held against its violations
(``verdicts``). Reading, changing and writing packets is plain ``struct`` code that asks the package under test nothing.
"""
