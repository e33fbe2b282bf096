"""The questions that a running daemon answers, the same for all its interfaces."""

from merkatd.service.base.errors import QuestionError, TryAgainError
from merkatd.service.services import DaemonQuestions, Questions

__all__ = ["DaemonQuestions", "QuestionError", "Questions", "TryAgainError"]
