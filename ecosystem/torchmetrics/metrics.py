"""The metrics of this lane and what they are updated with, fixed here so that runs compare."""

from collections.abc import Callable
from typing import Any

import torch

ROWS, CLASSES, LABELS = 24, 4, 3
Arguments = tuple[Any, ...]


def binary() -> Arguments:
    return torch.rand(ROWS), torch.randint(2, (ROWS,))


def multiclass() -> Arguments:
    return torch.randn(ROWS, CLASSES).softmax(1), torch.randint(CLASSES, (ROWS,))


def multilabel() -> Arguments:
    return torch.rand(ROWS, LABELS), torch.randint(2, (ROWS, LABELS))


def numbers() -> Arguments:
    return torch.randn(ROWS).abs() + 0.1, torch.randn(ROWS).abs() + 0.1


def vectors() -> Arguments:
    return torch.randn(ROWS, 5), torch.randn(ROWS, 5)


def distributions() -> Arguments:
    return torch.rand(ROWS, 5).softmax(1), torch.rand(ROWS, 5).softmax(1)


def pictures() -> Arguments:
    return torch.rand(2, 3, 48, 48), torch.rand(2, 3, 48, 48)


def sounds() -> Arguments:
    return torch.randn(2, 400), torch.randn(2, 400)


def clusters() -> Arguments:
    return torch.randint(3, (ROWS,)), torch.randint(3, (ROWS,))


def grouped() -> Arguments:
    return vectors()[0], torch.arange(ROWS) % 3


def ranked() -> Arguments:
    return torch.rand(ROWS), torch.randint(2, (ROWS,)), torch.arange(ROWS) // 6


def segments() -> Arguments:
    return torch.randint(2, (2, CLASSES, 8, 8)), torch.randint(2, (2, CLASSES, 8, 8))


def words() -> Arguments:
    return ["the cat sat on the mat", "a dog"], ["a cat sat on a mat", "the dog ran"]


def boxes() -> Arguments:
    def each(scored: bool) -> list[dict[str, torch.Tensor]]:
        found = []
        for _ in range(2):
            corners = torch.rand(4, 2) * 50
            one = {"boxes": torch.cat([corners, corners + 20], 1), "labels": torch.randint(2, (4,))}
            found.append(one | ({"scores": torch.rand(4)} if scored else {}))
        return found

    return each(True), each(False)


def one_number() -> Arguments:
    return (torch.randn(ROWS),)


def probabilities() -> Arguments:
    return torch.randn(2, 6, 10), torch.randint(10, (2, 6))


_OF_CLASSES = (
    "Accuracy", "Precision", "Recall", "F1Score", "Specificity", "StatScores", "AUROC", "AveragePrecision",
    "ConfusionMatrix", "JaccardIndex", "MatthewsCorrCoef", "HammingDistance", "ROC", "PrecisionRecallCurve",
)  # fmt: skip
_BINARY, _CLASSES = {"task": "binary"}, {"task": "multiclass", "num_classes": CLASSES}
_LABELS = {"task": "multilabel", "num_labels": LABELS}
# Module, classes, what is added to their names, constructor's arguments, inputs.
_ROWS: tuple[tuple[str, tuple[str, ...], str, dict[str, Any], Callable[[], Arguments]], ...] = (
    ("", _OF_CLASSES, ", binary", _BINARY, binary),
    ("", _OF_CLASSES, ", classes", _CLASSES, multiclass),
    ("", _OF_CLASSES, ", labels", _LABELS, multilabel),
    ("", ("AUROC",), ", thresholds", _BINARY | {"thresholds": 10}, binary),
    ("", ("CalibrationError",), "", _BINARY, binary),
    ("", ("CohenKappa", "HingeLoss"), "", _CLASSES, multiclass),
    ("", ("ExactMatch",), "", _LABELS, multilabel),
    ("", ("MeanSquaredError", "MeanAbsoluteError", "MeanAbsolutePercentageError", "MeanSquaredLogError",
          "SymmetricMeanAbsolutePercentageError", "WeightedMeanAbsolutePercentageError", "R2Score", "PearsonCorrCoef",
          "SpearmanCorrCoef", "KendallRankCorrCoef", "ConcordanceCorrCoef", "ExplainedVariance", "LogCoshError",
          "TweedieDevianceScore", "RelativeSquaredError"), "", {}, numbers),
    ("", ("CosineSimilarity",), "", {"reduction": "mean"}, vectors),
    ("", ("KLDivergence",), "", {}, distributions),
    ("", ("MeanMetric", "SumMetric", "MaxMetric", "MinMetric", "CatMetric"), "", {}, one_number),
    ("", ("RunningMean",), "", {"window": 2}, lambda: (torch.randn(()),)),
    ("image.", ("PeakSignalNoiseRatio", "StructuralSimilarityIndexMeasure"), "", {"data_range": 1.0}, pictures),
    ("image.", ("MultiScaleStructuralSimilarityIndexMeasure",), "",
     {"data_range": 1.0, "kernel_size": 3, "betas": (0.5, 0.5)}, pictures),
    ("image.", ("UniversalImageQualityIndex", "ErrorRelativeGlobalDimensionlessSynthesis", "SpectralAngleMapper",
                "SpectralDistortionIndex", "RootMeanSquaredErrorUsingSlidingWindow", "RelativeAverageSpectralError",
                "SpatialCorrelationCoefficient", "VisualInformationFidelity"), "", {}, pictures),
    ("image.", ("TotalVariation",), "", {}, lambda: pictures()[:1]),
    ("audio.", ("SignalNoiseRatio", "ScaleInvariantSignalNoiseRatio", "ScaleInvariantSignalDistortionRatio",
                "SignalDistortionRatio"), "", {}, sounds),
    ("clustering.", ("AdjustedRandScore", "AdjustedMutualInfoScore", "CompletenessScore", "FowlkesMallowsIndex",
                     "HomogeneityScore", "MutualInfoScore", "NormalizedMutualInfoScore", "RandScore",
                     "VMeasureScore"), "", {}, clusters),
    ("clustering.", ("CalinskiHarabaszScore", "DaviesBouldinScore", "DunnIndex"), "", {}, grouped),
    ("retrieval.", ("RetrievalMAP", "RetrievalMRR", "RetrievalPrecision", "RetrievalRecall", "RetrievalFallOut",
                    "RetrievalHitRate", "RetrievalNormalizedDCG", "RetrievalRPrecision", "RetrievalAUROC"), "", {},
     ranked),
    ("nominal.", ("CramersV", "PearsonsContingencyCoefficient", "TheilsU", "TschuprowsT"), "", {"num_classes": 3},
     clusters),
    ("segmentation.", ("MeanIoU", "GeneralizedDiceScore", "DiceScore"), "", {"num_classes": CLASSES}, segments),
    ("text.", ("Perplexity",), "", {}, probabilities),
    ("text.", ("WordErrorRate", "CharErrorRate", "MatchErrorRate", "WordInfoLost", "WordInfoPreserved",
               "EditDistance"), "", {}, words),
    ("text.", ("BLEUScore",), "", {"n_gram": 2}, lambda: (words()[0], [[text] for text in words()[1]])),
    ("detection.", ("IntersectionOverUnion", "GeneralizedIntersectionOverUnion", "DistanceIntersectionOverUnion",
                    "CompleteIntersectionOverUnion"), "", {}, boxes),
)  # fmt: skip
# Of each: class, constructor's arguments, inputs.
METRICS = {
    f"{module}{name}{more}": (f"{module}{name}", options, inputs)
    for module, names, more, options, inputs in _ROWS
    for name in names
}
