"""Whether a request may enter a pool of KV blocks now: `decide(state, request)`.

A gateway imports this package beside its own code, so it needs the standard library alone. It keeps one `State` per pool,
tells it what it admits, what was produced and what ended, and asks `decide` about each request.
"""

from oomctl.analyzers.capacity.admission.decide import Decision, Reservation, decide
from oomctl.analyzers.capacity.admission.early_rejection import EarlyRejection
from oomctl.analyzers.capacity.admission.forecast import Forecast
from oomctl.analyzers.capacity.admission.limits import state_of
from oomctl.analyzers.capacity.admission.oracle import Oracle
from oomctl.analyzers.capacity.admission.outputs import Outputs
from oomctl.analyzers.capacity.admission.ratio import PredictiveRatio
from oomctl.analyzers.capacity.admission.request import Request, Scope
from oomctl.analyzers.capacity.admission.reserve import Known, MaxTokens, Quantile
from oomctl.analyzers.capacity.admission.state import Policy, Running, State
from oomctl.analyzers.capacity.admission.sum_quantile import SumQuantile

__all__ = [
    "Decision", "EarlyRejection", "Forecast", "Known", "MaxTokens", "Oracle", "Outputs", "Policy", "PredictiveRatio",
    "Quantile", "Request", "Reservation", "Running", "Scope", "State", "SumQuantile", "decide", "state_of",
]  # fmt: skip
