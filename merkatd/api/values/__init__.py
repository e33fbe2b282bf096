"""The plain values of calls and answers, which JSON and XML-RPC carry alike."""
