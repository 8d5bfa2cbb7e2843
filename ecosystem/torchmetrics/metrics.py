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


# Class, constructor's arguments, inputs.
_OF_CLASSES = (
    "Accuracy", "Precision", "Recall", "F1Score", "Specificity", "StatScores", "AUROC", "AveragePrecision",
    "ConfusionMatrix", "JaccardIndex", "MatthewsCorrCoef", "HammingDistance", "ROC", "PrecisionRecallCurve",
)  # fmt: skip
METRICS: dict[str, tuple[str, dict[str, Any], Callable[[], Arguments]]] = {
    **{f"{name}, binary": (name, {"task": "binary"}, binary) for name in _OF_CLASSES},
    **{f"{name}, classes": (name, {"task": "multiclass", "num_classes": CLASSES}, multiclass) for name in _OF_CLASSES},
    **{f"{name}, labels": (name, {"task": "multilabel", "num_labels": LABELS}, multilabel) for name in _OF_CLASSES},
    "AUROC, thresholds": ("AUROC", {"task": "binary", "thresholds": 10}, binary),
    "CalibrationError": ("CalibrationError", {"task": "binary"}, binary),
    "CohenKappa": ("CohenKappa", {"task": "multiclass", "num_classes": CLASSES}, multiclass),
    "HingeLoss": ("HingeLoss", {"task": "multiclass", "num_classes": CLASSES}, multiclass),
    "ExactMatch": ("ExactMatch", {"task": "multilabel", "num_labels": LABELS}, multilabel),
    **{
        name: (name, {}, numbers)
        for name in (
            "MeanSquaredError", "MeanAbsoluteError", "MeanAbsolutePercentageError", "MeanSquaredLogError",
            "SymmetricMeanAbsolutePercentageError", "WeightedMeanAbsolutePercentageError", "R2Score", "PearsonCorrCoef",
            "SpearmanCorrCoef", "KendallRankCorrCoef", "ConcordanceCorrCoef", "ExplainedVariance", "LogCoshError",
            "TweedieDevianceScore", "RelativeSquaredError",
        )
    },
    "CosineSimilarity": ("CosineSimilarity", {"reduction": "mean"}, vectors),
    "KLDivergence": ("KLDivergence", {}, distributions),
    **{name: (name, {}, one_number) for name in ("MeanMetric", "SumMetric", "MaxMetric", "MinMetric", "CatMetric")},
    "RunningMean": ("RunningMean", {"window": 2}, lambda: (torch.randn(()),)),
    **{
        f"image.{name}": (f"image.{name}", given, pictures)
        for name, given in (
            ("PeakSignalNoiseRatio", {"data_range": 1.0}), ("StructuralSimilarityIndexMeasure", {"data_range": 1.0}),
            ("MultiScaleStructuralSimilarityIndexMeasure", {"data_range": 1.0, "kernel_size": 3, "betas": (0.5, 0.5)}),
            ("UniversalImageQualityIndex", {}), ("ErrorRelativeGlobalDimensionlessSynthesis", {}),
            ("SpectralAngleMapper", {}), ("SpectralDistortionIndex", {}),
            ("RootMeanSquaredErrorUsingSlidingWindow", {}),
            ("RelativeAverageSpectralError", {}), ("SpatialCorrelationCoefficient", {}),
            ("VisualInformationFidelity", {}),
        )
    },
    "image.TotalVariation": ("image.TotalVariation", {}, lambda: pictures()[:1]),
    **{
        f"audio.{name}": (f"audio.{name}", {}, sounds)
        for name in (
            "SignalNoiseRatio", "ScaleInvariantSignalNoiseRatio", "ScaleInvariantSignalDistortionRatio",
            "SignalDistortionRatio",
        )
    },
    **{
        f"clustering.{name}": (f"clustering.{name}", {}, clusters)
        for name in (
            "AdjustedRandScore", "AdjustedMutualInfoScore", "CompletenessScore", "FowlkesMallowsIndex",
            "HomogeneityScore", "MutualInfoScore", "NormalizedMutualInfoScore", "RandScore", "VMeasureScore",
        )
    },
    **{
        f"clustering.{name}": (f"clustering.{name}", {}, grouped)
        for name in ("CalinskiHarabaszScore", "DaviesBouldinScore", "DunnIndex")
    },
    **{
        f"retrieval.{name}": (f"retrieval.{name}", {}, ranked)
        for name in (
            "RetrievalMAP", "RetrievalMRR", "RetrievalPrecision", "RetrievalRecall", "RetrievalFallOut",
            "RetrievalHitRate", "RetrievalNormalizedDCG", "RetrievalRPrecision", "RetrievalAUROC",
        )
    },
    **{
        f"nominal.{name}": (f"nominal.{name}", {"num_classes": 3}, clusters)
        for name in ("CramersV", "PearsonsContingencyCoefficient", "TheilsU", "TschuprowsT")
    },
    "segmentation.MeanIoU": ("segmentation.MeanIoU", {"num_classes": CLASSES}, segments),
    "segmentation.GeneralizedDiceScore": ("segmentation.GeneralizedDiceScore", {"num_classes": CLASSES}, segments),
    "segmentation.DiceScore": ("segmentation.DiceScore", {"num_classes": CLASSES}, segments),
    "text.Perplexity": ("text.Perplexity", {}, probabilities),
    **{
        f"text.{name}": (f"text.{name}", {}, words)
        for name in (
            "WordErrorRate", "CharErrorRate", "MatchErrorRate", "WordInfoLost", "WordInfoPreserved", "EditDistance",
        )
    },
    "text.BLEUScore": ("text.BLEUScore", {"n_gram": 2}, lambda: (words()[0], [[text] for text in words()[1]])),
    **{
        f"detection.{name}": (f"detection.{name}", {}, boxes)
        for name in (
            "IntersectionOverUnion", "GeneralizedIntersectionOverUnion", "DistanceIntersectionOverUnion",
            "CompleteIntersectionOverUnion",
        )
    },
}  # fmt: skip
