"""No sentence is said whose figure is missing: everything that a verdict says passes here."""

import msgspec

from oomctl.analyzers.triage.words import complete
from oomctl.schemas.verdict import Incident


def keep_whole(incident: Incident) -> None:
    """Leave out statements and remedies that lack a figure, and what causes and remedies add in such words."""
    incident.evidence = [item for item in incident.evidence if complete(item.says)]
    incident.against = [item for item in incident.against if complete(item.says)]
    incident.alternatives = [item for item in incident.alternatives if complete(item.why)]
    incident.missing = [item for item in incident.missing if complete(item.what)]
    incident.causes = [
        item if complete(item.detail) else msgspec.structs.replace(item, detail="") for item in incident.causes
    ]
    incident.remedies = [
        item if complete(item.arithmetic) else msgspec.structs.replace(item, arithmetic="")
        for item in incident.remedies
        if complete(item.action)
    ]
