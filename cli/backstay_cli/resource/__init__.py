"""ModelDeployments: written from a manifest, read from a cluster, shown, and asked to try again."""
