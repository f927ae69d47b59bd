"""In-place resize as a noun.

    states      Desired, Allocated, Actuated, Actual: four types, and how they compare
    verdicts    what a node decides about a resize, and the words of it
    room        does a request fit on a node?
    conditions  PodResizePending, PodResizeInProgress and their reasons
    progress    where does this resize stand? Settled, Pending or InProgress
    counting    what a pod counts for meanwhile, in the dialects of older designs
    dialects    the names of these dialects
    words       the one word by which servers before 1.33 report a resize

Pure data and pure functions. Agent, API server, scheduler, controllers, autoscaler and command line read a resize
through this package, so that all of them give the same answer about the same pod.
"""
