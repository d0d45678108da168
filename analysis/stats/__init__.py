"""Statistics of captures: what was said, how fast, what waited for what, and what never came.

Batches of frames go in one after the other; a frozen value comes out, which text, JSON and the report show.
"""
