"""Speed and quality of this machine's dpstream: ratios to floors measured in the same run."""
