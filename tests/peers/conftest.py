"""Programs that run in the peers' own environments are no tests."""

collect_ignore = ["litserve_api.py", "mlflow_models.py"]
