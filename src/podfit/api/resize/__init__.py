"""The data model of in-place resize.

    states      Desired, Allocated, Actuated, Actual: four types, and how they compare
    verdicts    a node's decision about a resize, and its messages
    conditions  PodResizePending, PodResizeInProgress and their reasons
    progress    the state of a resize: Settled, Pending or InProgress
    counting    the size that counts meanwhile, in the dialects of older designs
    dialects    the names of these dialects
    words       the one word by which servers before 1.33 report a resize

Pure data and pure functions. Agent, API server, scheduler, controllers, autoscaler and command line read a resize
through this package, so that all of them agree about the same pod.
"""
