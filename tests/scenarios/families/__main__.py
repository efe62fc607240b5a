"""Print labelled logs: `python -m tests.scenarios.families tgi/load_weights/json [SEED]`; names alone without a name."""

import sys

from tests.scenarios.families import fixtures, label_of, render

wanted = sys.argv[1] if len(sys.argv) > 1 else ""
seed = int(sys.argv[2]) if len(sys.argv) > 2 else 0
for fixture in fixtures():
    if not wanted:
        print(fixture.name, label_of(fixture))
    elif fixture.name == wanted:
        sys.stdout.write(render(fixture, seed))
