"""What runs a learner on a stream: schedule, session, and the ports to the outside."""
