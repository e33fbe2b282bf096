"""What a running daemon can be asked, whatever door the question came through."""

from merkatd.service.base.errors import QuestionError, TryAgainError
from merkatd.service.services import DaemonQuestions, Questions

__all__ = ["DaemonQuestions", "QuestionError", "Questions", "TryAgainError"]
