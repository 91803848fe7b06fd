"""Continual sums: strategies, and the one mechanism that measures them.

A strategy factors a running, windowed or decayed sum into an encoder and a decoder
(``strategy``). ``sum.ContinualSum`` adds noise between them and states what that costs.

* Dyadic trees: ``tree``, ``honaker`` (same nodes, less error), ``hybrid`` (no horizon),
  ``window_tree`` (records expire).
* Toeplitz factorisations: the other strategies; less noise, and more arithmetic per tick.
"""
