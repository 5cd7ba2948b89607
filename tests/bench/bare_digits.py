"""What a search over examples/digits costs without any search: imports, data, EPOCHS of training.

    bare_digits.py EPOCHS CONFIG.json
"""

import json
import sys
import warnings

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

warnings.filterwarnings("ignore")
epochs = int(sys.argv[1])
with open(sys.argv[2]) as file:
    config = json.load(file)
images, labels = load_digits(return_X_y=True)
train_x, test_x, train_y, test_y = train_test_split(
    images / 16.0, labels, test_size=0.2, random_state=0)
network = MLPClassifier(hidden_layer_sizes=(config["width"],), learning_rate_init=config["lr"],
                        batch_size=config["batch"], alpha=config["alpha"], random_state=0)
for _ in range(epochs):
    network.partial_fit(train_x, train_y, classes=range(10))
    network.score(test_x, test_y)
