"""The front door: the command line and the public library. The one package that knows both sides."""
