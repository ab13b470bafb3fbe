"""What Alertmanager reports about the models that serve."""
