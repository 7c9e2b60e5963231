"""All stored data of the site: the benchmark, the measured models, the results."""

from leaderboard.models.access import ApiToken, Use, visible_images
from leaderboard.models.chains import Audit, Call, Chain, JudgeAnswer, Score, Trip, TripStep
from leaderboard.models.entries import EditingModel, Pace, SecurityEvent, Submission
from leaderboard.models.experiments import Experiment, ExperimentArm, ExperimentResult
from leaderboard.models.images import StoredImage
from leaderboard.models.runs import Run, RunProgress, RunReview
from leaderboard.models.standings import (
    BoardRecord,
    Calibration,
    CaseValues,
    MetricVersion,
    NoReferenceResult,
    PublishedFigure,
    Standing,
    SuiteReport,
)
from leaderboard.models.suites import Case, EditPair, SourceImage, Suite, SuiteImage
from leaderboard.models.uploads import ContributedRun, UploadedChain, UploadedImage
from leaderboard.models.votes import PeopleReport, PeopleStanding, Question, Vote, Voter

__all__ = [
    "ApiToken",
    "Audit",
    "BoardRecord",
    "Calibration",
    "Call",
    "Case",
    "CaseValues",
    "Chain",
    "ContributedRun",
    "EditPair",
    "EditingModel",
    "Experiment",
    "ExperimentArm",
    "ExperimentResult",
    "JudgeAnswer",
    "MetricVersion",
    "NoReferenceResult",
    "Pace",
    "PeopleReport",
    "PeopleStanding",
    "PublishedFigure",
    "Question",
    "Run",
    "RunProgress",
    "RunReview",
    "Score",
    "SecurityEvent",
    "SourceImage",
    "Standing",
    "StoredImage",
    "Submission",
    "Suite",
    "SuiteImage",
    "SuiteReport",
    "Trip",
    "TripStep",
    "UploadedChain",
    "UploadedImage",
    "Use",
    "Vote",
    "Voter",
    "visible_images",
]
