"""The archive: captures of any amount to Parquet tables of frames, connections, streams and findings, with Spark.

``job.run`` does all of it; ``schema`` has the tables, ``manifest`` the contents of an archive. Tasks run the reader
and the checker of the command line; the modules here bring them to the files, and store what they give.
"""
