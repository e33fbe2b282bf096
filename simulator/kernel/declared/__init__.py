"""Applications on the kernel: what jobs have done, and how services answer."""
