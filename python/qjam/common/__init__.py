"""What master and workers share."""
