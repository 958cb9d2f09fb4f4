"""A simulated fleet: honest agents on simulated repositories, to measure whether plans get work done."""
