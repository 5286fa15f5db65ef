"""A model behind LitServe; runs in LitServe's environment: litserve_api.py MODEL PORT."""

import sys

import joblib
import litserve
import pandas as pd


class Credit(litserve.LitAPI):
    def setup(self, device):
        self.model = joblib.load(sys.argv[1])

    def decode_request(self, request):
        return pd.DataFrame(request["people"])

    def predict(self, frame):
        return self.model.predict(frame).tolist()

    def encode_response(self, output):
        return {"answers": [{"decision": one} for one in output]}


if __name__ == "__main__":
    server = litserve.LitServer(Credit(), accelerator="cpu")
    server.run(host="127.0.0.1", port=int(sys.argv[2]), generate_client_file=False, log_level="error")
