"""What oomctl costs, as ratios within one run, so that the limits hold on any machine. Never a timed test."""
