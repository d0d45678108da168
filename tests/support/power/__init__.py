"""The power of the checker: violations seeded into recordings of real servers, and how many of them it finds.

Nothing here asks the product what a message is, and nothing uses its generator: messages are taken apart and put
together with ``struct``, recordings are read with dpkt. Only ``measure`` runs the checker, through the call that
programs use.

``python -m tests.support.power --help`` tells what can be measured. To measure another checkout with these violations,
run it here with ``UPRSCOPE_TREE=OTHER``: the product's packages then come from there.
"""
