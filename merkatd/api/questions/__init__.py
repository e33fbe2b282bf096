"""What a running daemon can be asked, whatever door the question came through."""

from merkatd.api.questions.daemon import DaemonQuestions, Questions
from merkatd.api.questions.words import NotNowError, QuestionError

__all__ = ["DaemonQuestions", "NotNowError", "QuestionError", "Questions"]
