"""What a running daemon can be asked, whatever door the question came through."""

from merkatd.service.base.errors import NotNowError, QuestionError
from merkatd.service.services import DaemonQuestions, Questions

__all__ = ["DaemonQuestions", "NotNowError", "QuestionError", "Questions"]
