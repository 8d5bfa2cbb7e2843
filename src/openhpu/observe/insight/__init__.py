"""The report of a run: collection in the script's processes, and output as a summary or a page.

`collector` runs in each process of the script and writes a document (`document`). `launch` starts the script and shows
the documents as text (`summary`), JSON or HTML (`page`, `charts`), with `advice`. All show the same `sentences`. Only
`collector` needs torch.
"""
