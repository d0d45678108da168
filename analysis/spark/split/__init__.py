"""One run of captures, read by many Spark tasks: splits of its files are decoded in parallel, with exact TCP state.

A *run* is a list of captures in the order of their first packets; a *split* is a range of whole packet records of one
capture, for one task; a *conversation* is all connections of one pair of addresses and ports. A connection may cross
any number of splits. A task that reads a split in the middle of a run knows neither the byte offsets of its connections
nor where their next frames begin, so the state of every conversation at the start of every split is found first,
without reading the run in order:

1. ``plan`` cuts large files into splits at record boundaries.
2. ``prescan`` runs each split through the TCP engine without making rows, and ``prescan_connections`` takes notes on
   each conversation. Of a connection from an earlier split these are its *head*, the segments up to its *sync point*
   (where the next frame begins at a known byte and no earlier byte is missing), and its state at the end of the split.
3. ``stitch`` gets the notes on one conversation from all splits, in order. ``resume`` feeds the head to the engine,
   from the true state at the end of the split before. If the engine then agrees with the prescan at the sync point, all
   that follows is the same but for a constant shift of offsets: the prescan's end state, shifted, is the true one. The
   results are *checkpoints*, the states of conversations at the start of each split.
4. ``decode_split`` decodes each split from its checkpoints into frames, with ``conversations``; ``frame_numbers`` adds
   the frame numbers of the run, from the counts that stitching made.
5. Where engine and prescan disagree, or anything else is in doubt, the conversation falls back: its segments are
   shuffled (``segment_rows``) and decoded in order by one task (``shuffled``).

``records`` has the rows that go from task to task, ``read_frames`` puts the steps together as Spark jobs. Only heads,
states and the segments of conversations that fall back are shuffled. The frames equal those of the single-process
reader; the tests hold them equal for captures cut anywhere.
"""
