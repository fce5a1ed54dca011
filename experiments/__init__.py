"""What was measured and reproduced, one folder a table, ablation or benchmark."""
