"""The sources of goals: reports of CI, wishes of people, and facts of git. Only reads; sends and prints nothing."""
