"""Cross-validates classifiers of handwritten digits: a task for each fold of each candidate, and
an actor that collects the scores.

    python3 cross_validation.py               # a cluster of its own, with all cores
    python3 cross_validation.py --folds 10
    rt submit cross_validation.py             # a job, whose tasks may run on every node

The data are the 1 797 digits of the UCI repository that scikit-learn ships. They are stored once
with rt.put, and every task on the machine reads the same memory. Needs scikit-learn.
"""

import argparse
import statistics

import rt

VALUES = {"neighbours": (1, 3, 9), "svm": (0.1, 1.0, 10.0), "trees": (20, 60)}
CANDIDATES = {f"{kind} {value}": (kind, value) for kind in VALUES for value in VALUES[kind]}


def make_classifier(kind, value):
    """An untrained classifier. value: neighbours, the weight C of errors, or trees."""
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.svm import SVC

    if kind == "neighbours":
        return KNeighborsClassifier(n_neighbors=value)
    if kind == "svm":
        return SVC(C=value)
    return RandomForestClassifier(n_estimators=value, random_state=0)


@rt.remote
class Scoreboard:
    """Accuracies by candidate. An actor: the calls of all tasks come here one after another."""

    def __init__(self, folds):
        self.folds = folds
        self.scores = {}

    def add(self, name, fold, accuracy):
        """Notes one fold; the mean accuracy once all folds of the candidate are there."""
        self.scores.setdefault(name, {})[fold] = accuracy
        if len(self.scores[name]) < self.folds:
            return None
        return statistics.mean(self.scores[name].values())

    def best(self):
        """(mean accuracy, name) of the best candidate."""
        return max((statistics.mean(each.values()), name) for name, each in self.scores.items())


@rt.remote
def run_fold(name, fold, folds, images, labels, board):
    """Trains on all other folds, and returns (name, mean of all folds if this was the last)."""
    from sklearn.model_selection import StratifiedKFold

    split = StratifiedKFold(folds, shuffle=True, random_state=0).split(images, labels)
    train, test = list(split)[fold]
    classifier = make_classifier(*CANDIDATES[name])
    classifier.fit(images[train], labels[train])
    accuracy = classifier.score(images[test], labels[test])
    return name, rt.get(board.add.remote(name, fold, accuracy))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--folds", type=int, default=5)
    folds = parser.parse_args().folds
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    rt.init()
    board = Scoreboard.remote(folds)
    data = (rt.put(images / 16.0), rt.put(labels))
    waiting = [
        run_fold.remote(name, fold, folds, *data, board)
        for name in CANDIDATES
        for fold in range(folds)
    ]
    while waiting:  # In the order in which they end.
        ready, waiting = rt.wait(waiting)
        name, mean = rt.get(ready[0])
        if mean is not None:
            print(f"{name}: {mean:.4f}", flush=True)
    mean, name = rt.get(board.best.remote())
    print(f"best: {name}, accuracy {mean:.4f} in {folds} folds")


if __name__ == "__main__":
    main()
