"""Custom resource definitions, made from the same models that check documents everywhere else."""
