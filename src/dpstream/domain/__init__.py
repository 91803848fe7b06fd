"""What of a record may count: public bounds, admission, and exact sums."""
