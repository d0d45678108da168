---------------------------------------------------------------- preferences

upr.prefs.where = Pref.enum(
  "Known ports", 2,
  "The ports below are those of the built-in couchbase dissector: leave them to it, take them, or take them and show beside it what it says",
  { { 1, "leave", 1 }, { 2, "take", 2 }, { 3, "beside", 3 } }, false
)
upr.prefs.ports = Pref.range("TCP ports", "11209-11210", "Ports to take; on all others traffic is recognised by its bytes", 65535)
upr.prefs.dialect = Pref.enum("Dialect", 0, "How to read connections", {
  { 0, "auto", 0 }, { 1, "dcp", 1 }, { 2, "upr", 2 }, { 3, "draft", 3 }, { 4, "upr-proto", 4 },
}, false)
upr.prefs.checks = Pref.bool("Check the rules", true, "Follow streams, answers and flow control, and report violations")
upr.prefs.inspect = Pref.bool("Check values", false, "Expand and read every document to see whether it is what its datatype says (FRM-10): takes time")
upr.prefs.limit = Pref.uint("Largest body", LIMITS.body, "Where a message must be searched for, no larger body is believed")
upr.prefs.keys = Pref.bool("Show keys", true, "Show document keys as text")
upr.prefs.values = Pref.bool("Show values", true, "Show values, and look into documents")
upr.prefs.json = Pref.enum(
  "Show JSON as a tree", 0,
  "Beside the text: auto does it in Wireshark, and where a filter asks for it; tshark prints every packet, which takes long",
  { { 0, "auto", 0 }, { 1, "always", 1 }, { 2, "never", 2 } }, false
)
upr.prefs.places = Pref.bool(
  "Places in tshark", false, "Tell where in the packet numbers and keys are in tshark, too: for -T pdml and -T json -x, which print bytes; takes time"
)
upr.prefs.kept = Pref.uint(
  "Frames to remember", 8000000, "For so many frames Wireshark can show what came before them when it looks at them again"
)
