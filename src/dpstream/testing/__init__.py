"""What tests share: laws, harnesses and small learners. Nothing here is needed to run a stream."""
