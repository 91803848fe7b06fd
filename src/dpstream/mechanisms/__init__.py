"""How a statistic is measured: one mechanism a module, each with its proof beside it."""
