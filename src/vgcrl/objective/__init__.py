"""The paper: goal spaces, posteriors, relabelling, the learner, and Table 1 as rows."""
