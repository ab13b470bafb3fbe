"""What the runtime says about itself: metrics and logs."""
