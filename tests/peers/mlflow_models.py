"""Writes MLflow folders, one for each file in a folder; runs in MLflow's environment: mlflow_models.py FOLDER."""

import sys
from pathlib import Path

import catboost
import joblib
import lightgbm
import mlflow
import xgboost

for file in sorted(Path(sys.argv[1]).iterdir()):
    target = file.with_name(f"mlflow-{file.stem}")
    if file.suffix == ".ubj":
        model = xgboost.XGBClassifier()
        model.load_model(file)
        mlflow.xgboost.save_model(model, target)
    elif file.suffix == ".txt":
        mlflow.lightgbm.save_model(lightgbm.Booster(model_file=file), target)
    elif file.suffix == ".cbm":
        mlflow.catboost.save_model(catboost.CatBoostClassifier().load_model(str(file)), target)
    elif file.suffix == ".joblib":
        mlflow.sklearn.save_model(joblib.load(file), target, serialization_format="cloudpickle")
        trees = ["sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor"]
        options = {"serialization_format": "skops", "skops_trusted_types": trees}
        mlflow.sklearn.save_model(joblib.load(file), f"{target}-skops", **options)
