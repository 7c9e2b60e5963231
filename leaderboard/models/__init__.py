"""Everything the site keeps: the benchmark, who is measured, and what came out."""

from leaderboard.models.audits import Audit
from leaderboard.models.board_records import BoardRecord
from leaderboard.models.chains import Call, Chain, Score, Trip
from leaderboard.models.entries import EditingModel, Pace, SecurityEvent, Submission
from leaderboard.models.experiments import Experiment, ExperimentArm, ExperimentResult
from leaderboard.models.judge_answers import JudgeAnswer
from leaderboard.models.picture_access import visible_pictures
from leaderboard.models.pictures import StoredImage
from leaderboard.models.quotas import Use
from leaderboard.models.runs import Run
from leaderboard.models.standings import (
    Calibration,
    CaseValues,
    MetricVersion,
    PublishedFigure,
    Standing,
    SuiteReport,
)
from leaderboard.models.subscriptions import Delivery, Subscription
from leaderboard.models.suites import Case, EditPair, SourceImage, Suite, SuitePicture
from leaderboard.models.tokens import ApiToken
from leaderboard.models.uploaded_chains import UploadedChain, UploadedPicture

__all__ = [
    "ApiToken",
    "Audit",
    "BoardRecord",
    "Calibration",
    "Call",
    "Case",
    "CaseValues",
    "Chain",
    "Delivery",
    "EditPair",
    "EditingModel",
    "Experiment",
    "ExperimentArm",
    "ExperimentResult",
    "JudgeAnswer",
    "MetricVersion",
    "Pace",
    "PublishedFigure",
    "Run",
    "Score",
    "SecurityEvent",
    "SourceImage",
    "Standing",
    "StoredImage",
    "Submission",
    "Subscription",
    "Suite",
    "SuitePicture",
    "SuiteReport",
    "Trip",
    "UploadedChain",
    "UploadedPicture",
    "Use",
    "visible_pictures",
]
