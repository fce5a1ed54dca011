"""The built-in traffic world: scenes with an exact counterfactual and a known cause."""
