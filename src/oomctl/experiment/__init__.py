"""The safe capacity experiment: ten steps on a worker, recorded, guarded, and gone on with where they were left.

`run.run` does it; `steps` holds them. What is concluded of their figures is in `oomctl.analyzers.capacity.experiment`, and
what they leave is declared in `oomctl.schemas.experiment`.
"""
