"""The evaluation of the utility-placement paper: jobs, and a service beside them."""
