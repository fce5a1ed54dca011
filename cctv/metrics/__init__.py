"""Statistics of prediction rows: labels, quadruple metrics, intervals."""
