"""Real fixes of real projects, played to the end by an agent that knows them: does the documented command get there?"""
