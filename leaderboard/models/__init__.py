"""Everything the site keeps: the benchmark, who is measured, and what came out."""

from leaderboard.models.audits import Audit
from leaderboard.models.board_records import BoardRecord
from leaderboard.models.chains import Call, Chain, Score, Trip, TripStep
from leaderboard.models.entries import EditingModel, Pace, SecurityEvent, Submission
from leaderboard.models.experiments import Experiment, ExperimentArm, ExperimentResult
from leaderboard.models.judge_answers import JudgeAnswer
from leaderboard.models.people.questions import Question
from leaderboard.models.people.results import PeopleReport, PeopleStanding
from leaderboard.models.people.votes import Vote, Voter
from leaderboard.models.picture_access import visible_pictures
from leaderboard.models.pictures import StoredImage
from leaderboard.models.quotas import Use
from leaderboard.models.runs import Run, RunProgress, RunReview
from leaderboard.models.standings import (
    Calibration,
    CaseValues,
    MetricVersion,
    NoReferenceResult,
    PublishedFigure,
    Standing,
    SuiteReport,
)
from leaderboard.models.suites import Case, EditPair, SourceImage, Suite, SuitePicture
from leaderboard.models.tokens import ApiToken
from leaderboard.models.uploads import ContributedRun, UploadedChain, UploadedPicture

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
    "SuitePicture",
    "SuiteReport",
    "Trip",
    "TripStep",
    "UploadedChain",
    "UploadedPicture",
    "Use",
    "Vote",
    "Voter",
    "visible_pictures",
]
