"""Files on servers, read by ranges: what a checkpoint needs of them and no more.

`address` says what may be shown of an address, `store` finds who reads it (`http`, or a filesystem of fsspec), and
`blob` is a file that is open there. Nothing here knows a format; `formats.remote_file` gives the readers such a file.
"""
