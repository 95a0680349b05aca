"""Where answers are kept, behind Protocols that belong to the stages."""
