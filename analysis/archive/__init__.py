"""The archive: captures of any amount to Parquet tables of frames, connections, streams and findings, with Spark.

``job.run`` does it all; ``tables`` says what comes out, ``manifest`` what is in already. Everything that looks at bytes
or rules is the same code as on the command line; here it is only brought to where the files are.
"""
