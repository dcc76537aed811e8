"""Run your own learning algorithm on more than one core and more than one machine."""
